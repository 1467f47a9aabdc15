"""Heartbeat: what each version of the messages carries."""

from stratalog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """Instance ids since 3, flexible since 4."""
    request = HeartbeatRequest(group_id="g", generation_id=5, member_id="m", group_instance_id="i")
    assert encode_bytes(request, 2) == bytes.fromhex("0001 67 00000005 0001 6d")
    assert encode_bytes(request, 3) == bytes.fromhex("0001 67 00000005 0001 6d 0001 69")
    assert encode_bytes(request, 4) == bytes.fromhex("0267 00000005 026d 0269 00")


def test_response_versions():
    """Throttle time since 1."""
    response = HeartbeatResponse(error_code=27)
    assert encode_bytes(response, 0) == bytes.fromhex("001b")
    assert encode_bytes(response, 3) == bytes.fromhex("00000000 001b")
    assert encode_bytes(response, 4) == bytes.fromhex("00000000 001b 00")
