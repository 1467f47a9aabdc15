"""JoinGroup: what each version of the messages carries."""

from stratalog.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from stratalog.wire.schema import decode, encode_bytes

REQUEST = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=6,
    rebalance_timeout_ms=7,
    member_id="",
    group_instance_id="i",
    protocol_type="c",
    protocols=[JoinGroupRequestProtocol(name="r", metadata=b"\xff")],
    reason="why",
)


def test_request_versions():
    """Rebalance time-out since 1, instance id since 5, flexible since 6, reason since 8."""
    protocols = "00000001 0001 72 00000001 ff"
    assert encode_bytes(REQUEST, 0) == bytes.fromhex("0001 67 00000006 0000 0001 63" + protocols)
    assert encode_bytes(REQUEST, 4) == bytes.fromhex("0001 67 00000006 00000007 0000 0001 63" + protocols)
    compact = "0267 00000006 00000007 01 0269 0263 02 0272 02ff 00"
    assert encode_bytes(REQUEST, 7) == bytes.fromhex(compact + "00")
    assert encode_bytes(REQUEST, 9) == bytes.fromhex(compact + "04776879" + "00")


def test_request_old():
    """Without a rebalance time-out it is -1, without an instance id and a reason they are null."""
    request = decode(JoinGroupRequest, 0, encode_bytes(REQUEST, 0))
    assert (request.rebalance_timeout_ms, request.group_instance_id, request.reason) == (-1, None, None)


def test_response_failed():
    """An answer that says nothing but an error: generation -1, empty texts, from 7 on a null protocol may stand."""
    response = JoinGroupResponse(error_code=79, member_id="m")
    assert encode_bytes(response, 4) == bytes.fromhex("00000000 004f ffffffff 0000 0000 0001 6d 00000000")
    response.protocol_name = None
    assert encode_bytes(response, 9) == bytes.fromhex("00000000 004f ffffffff 00 00 01 00 026d 01 00")


def test_response_members():
    """Members carry instance ids since 5; the skipped assignment stands before the member id since 9."""
    member = JoinGroupResponseMember(member_id="m", group_instance_id="i", metadata=b"\x01")
    response = JoinGroupResponse(
        generation_id=1, protocol_name="r", leader="m", skip_assignment=True, member_id="m", members=[member]
    )
    head = "0000 00000001 0001 72 0001 6d 0001 6d 00000001"
    assert encode_bytes(response, 1) == bytes.fromhex(head + "0001 6d 00000001 01")
    assert encode_bytes(response, 5) == bytes.fromhex("00000000" + head + "0001 6d 0001 69 00000001 01")
    assert encode_bytes(response, 9) == bytes.fromhex(
        "00000000 0000 00000001 00 0272 026d 01 026d 02 026d 0269 0201 00 00"
    )
