"""DeleteAcls: what each version of the messages carries."""

from stratalog.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """The filters are those of DescribeAcls."""
    one = DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter="User:a",
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    request = DeleteAclsRequest(filters=[one])
    assert encode_bytes(request, 1) == bytes.fromhex("00000001 01 ffff 01 0006 557365723a61 ffff 01 01")
    assert encode_bytes(request, 2) == bytes.fromhex("02 01 00 01 07557365723a61 00 01 01 00 00")


def test_response_versions():
    """The removed bindings, filter by filter."""
    gone = DeleteAclsMatchingAcl(
        resource_type=2, resource_name="t", principal="p", host="*", operation=3, permission_type=2
    )
    response = DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(matching_acls=[gone])])
    assert encode_bytes(response, 1) == bytes.fromhex(
        "00000000 00000001 0000 ffff 00000001 0000 ffff 02 0001 74 03 0001 70 0001 2a 03 02"
    )
    assert encode_bytes(response, 3) == bytes.fromhex(
        "00000000 02 0000 00 02 0000 00 02 0274 03 0270 022a 03 02 00 00 00"
    )
