"""FindCoordinator: what each version of the messages carries."""

from stratalog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from stratalog.wire.schema import decode, encode_bytes


def test_request_versions():
    """One key up to version 3, a list of keys from 4 on (KIP-699)."""
    request = FindCoordinatorRequest(key="g", key_type=1, coordinator_keys=["a", "b"])
    assert encode_bytes(request, 0).hex() == "0001" + "67"
    assert encode_bytes(request, 1).hex() == "0001" + "67" + "01"
    assert encode_bytes(request, 3).hex() == "0267" + "01" + "00"
    assert encode_bytes(request, 4).hex() == "01" + "03" + "0261" + "0262" + "00"
    assert decode(FindCoordinatorRequest, 4, bytes.fromhex("01 02 0261 00")) == FindCoordinatorRequest(
        key_type=1, coordinator_keys=["a"]
    )


def test_response_versions():
    """One node up to version 3, one for each key from 4 on."""
    one = FindCoordinatorResponse(error_code=15, node_id=-1, host="", port=-1)
    assert encode_bytes(one, 0).hex() == "000f" + "ffffffff" + "0000" + "ffffffff"
    assert encode_bytes(one, 2).hex() == "00000000" + "000f" + "ffff" + "ffffffff" + "0000" + "ffffffff"
    many = FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1, host="h", port=9092)])
    assert encode_bytes(many, 4) == bytes.fromhex("00000000 02 0267 00000001 0268 00002384 0000 00 00 00")
