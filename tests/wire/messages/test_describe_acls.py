"""DescribeAcls: what each version of the messages carries."""

from stratalog.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """Null filters match everything; literal is the default pattern."""
    request = DescribeAclsRequest(
        resource_type_filter=2,
        resource_name_filter="t",
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert encode_bytes(request, 1) == bytes.fromhex("02 0001 74 03 ffff ffff 01 01")
    assert encode_bytes(request, 3) == bytes.fromhex("02 0274 03 00 00 01 01 00")


def test_response_versions():
    """Rules by resource, behind the error of the whole."""
    rule = AclDescription(principal="User:a", host="*", operation=3, permission_type=3)
    resource = DescribeAclsResource(resource_type=2, resource_name="t", acls=[rule])
    response = DescribeAclsResponse(resources=[resource])
    assert encode_bytes(response, 1) == bytes.fromhex(
        "00000000 0000 ffff 00000001 02 0001 74 03 00000001 0006 557365723a61 0001 2a 03 03"
    )
    assert encode_bytes(response, 2) == bytes.fromhex(
        "00000000 0000 00 02 02 0274 03 02 07557365723a61 022a 03 03 00 00 00"
    )
