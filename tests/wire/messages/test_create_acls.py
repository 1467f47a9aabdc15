"""CreateAcls: what each version of the messages carries."""

from stratalog.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """A rule is a resource, a principal, a host, an operation and a permission."""
    rule = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)
    request = CreateAclsRequest(creations=[rule])
    assert encode_bytes(request, 1) == bytes.fromhex("00000001 02 0001 74 03 0006 557365723a61 0001 2a 03 03")
    assert encode_bytes(request, 2) == bytes.fromhex("02 02 0274 03 07557365723a61 022a 03 03 00 00")


def test_response_versions():
    """One outcome for each rule, in their order."""
    response = CreateAclsResponse(results=[AclCreationResult(error_code=54, error_message="no")])
    assert encode_bytes(response, 1) == bytes.fromhex("00000000 00000001 0036 0002 6e6f")
    assert encode_bytes(response, 3) == bytes.fromhex("00000000 02 0036 036e6f 00 00")
