"""DescribeGroups: what each version of the messages carries."""

from stratalog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from stratalog.wire.schema import encode_bytes

MEMBER = DescribedGroupMember(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/h",
    member_metadata=b"\x01",
    member_assignment=b"\x02",
)


def test_request_versions():
    """Authorized operations may be asked for since 3."""
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    assert encode_bytes(request, 2) == bytes.fromhex("00000001 0001 67")
    assert encode_bytes(request, 4) == bytes.fromhex("00000001 0001 67 01")
    assert encode_bytes(request, 6) == bytes.fromhex("02 0267 01 00")


def test_response_versions():
    """Throttle time since 1, operations since 3, instance ids since 4, an error message since 6."""
    group = DescribedGroup(group_id="g", group_state="Stable", protocol_type="c", protocol_data="r", members=[MEMBER])
    response = DescribeGroupsResponse(groups=[group])
    start = "00000001 0000 0001 67 0006 537461626c65 0001 63 0001 72 00000001 0001 6d"
    rest = "0001 63 0002 2f68 00000001 01 00000001 02"
    assert encode_bytes(response, 0) == bytes.fromhex(start + rest)
    assert encode_bytes(response, 3) == bytes.fromhex("00000000" + start + rest + "80000000")
    assert encode_bytes(response, 4) == bytes.fromhex("00000000" + start + "0001 69" + rest + "80000000")
    assert encode_bytes(response, 6) == bytes.fromhex(
        "00000000 02 0000 00 0267 07537461626c65 0263 0272 02 026d 0269 0263 032f68 0201 0202 00 80000000 00 00"
    )
