"""SyncGroup: what each version of the messages carries."""

from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """Instance ids since 3, flexible since 4, protocol type and name since 5."""
    request = SyncGroupRequest(
        group_id="g",
        generation_id=5,
        member_id="m",
        group_instance_id="i",
        protocol_type="c",
        protocol_name="r",
        assignments=[SyncGroupRequestAssignment(member_id="m", assignment=b"\x01\x02")],
    )
    assignments = "00000001 0001 6d 00000002 0102"
    assert encode_bytes(request, 2) == bytes.fromhex("0001 67 00000005 0001 6d" + assignments)
    assert encode_bytes(request, 3) == bytes.fromhex("0001 67 00000005 0001 6d 0001 69" + assignments)
    assert encode_bytes(request, 4) == bytes.fromhex("0267 00000005 026d 0269 02 026d 030102 00 00")
    assert encode_bytes(request, 5) == bytes.fromhex("0267 00000005 026d 0269 0263 0272 02 026d 030102 00 00")


def test_response_versions():
    """Throttle time since 1, protocol type and name since 5."""
    response = SyncGroupResponse(protocol_type="c", protocol_name="r", assignment=b"\x01")
    assert encode_bytes(response, 0) == bytes.fromhex("0000 00000001 01")
    assert encode_bytes(response, 3) == bytes.fromhex("00000000 0000 00000001 01")
    assert encode_bytes(response, 4) == bytes.fromhex("00000000 0000 0201 00")
    assert encode_bytes(response, 5) == bytes.fromhex("00000000 0000 0263 0272 0201 00")
