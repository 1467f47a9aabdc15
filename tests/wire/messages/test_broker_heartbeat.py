"""BrokerHeartbeat: what each version of the messages carries."""

import pytest

from stratalog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from stratalog.wire.schema import encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """Failed directories are a tag since 1, cordoned ones since 2."""
    request = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=7,
        current_metadata_offset=9,
        want_fence=False,
        want_shut_down=True,
        offline_log_dirs=[UUID],
        cordoned_log_dirs=[],
    )
    start = "00000001 0000000000000007 0000000000000009 00 01"
    assert encode_bytes(request, 0) == bytes.fromhex(start + "00")
    assert encode_bytes(request, 1) == bytes.fromhex(start + "01 00 11 02" + UUID.hex())
    assert encode_bytes(request, 2) == bytes.fromhex(start + "02 00 11 02" + UUID.hex() + "01 01 01")


@pytest.mark.parametrize("version", range(3))
def test_response_versions(version):
    """A broker is fenced unless the answer says otherwise."""
    answer = BrokerHeartbeatResponse(is_caught_up=True, should_shut_down=False)
    assert encode_bytes(answer, version) == bytes.fromhex("00000000 0000 01 01 00 00")
