"""LeaveGroup: what each version of the messages carries."""

from stratalog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from stratalog.wire.schema import decode, encode_bytes


def test_request_one_member():
    """Below 3 one member leaves."""
    request = LeaveGroupRequest(group_id="g", member_id="m")
    assert encode_bytes(request, 2) == bytes.fromhex("0001 67 0001 6d")
    assert decode(LeaveGroupRequest, 2, encode_bytes(request, 2)).members == []


def test_request_many_members():
    """From 3 on many do, from 5 on with reasons."""
    members = [MemberIdentity(member_id="m", group_instance_id="i", reason="r")]
    request = LeaveGroupRequest(group_id="g", members=members)
    assert encode_bytes(request, 3) == bytes.fromhex("0001 67 00000001 0001 6d 0001 69")
    assert encode_bytes(request, 4) == bytes.fromhex("0267 02 026d 0269 00 00")
    assert encode_bytes(request, 5) == bytes.fromhex("0267 02 026d 0269 0272 00 00")


def test_response_versions():
    """Throttle time since 1, each member since 3."""
    response = LeaveGroupResponse(
        error_code=25, members=[MemberResponse(member_id="m", group_instance_id=None, error_code=25)]
    )
    assert encode_bytes(response, 0) == bytes.fromhex("0019")
    assert encode_bytes(response, 2) == bytes.fromhex("00000000 0019")
    assert encode_bytes(response, 3) == bytes.fromhex("00000000 0019 00000001 0001 6d ffff 0019")
    assert encode_bytes(response, 5) == bytes.fromhex("00000000 0019 02 026d 00 0019 00 00")
