"""DeleteGroups: what each version of the messages carries."""

from stratalog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from stratalog.wire.schema import encode_bytes


def test_versions():
    """Flexible since 2, otherwise the same from the first version on."""
    request = DeleteGroupsRequest(groups_names=["g"])
    assert encode_bytes(request, 0) == bytes.fromhex("00000001 0001 67")
    assert encode_bytes(request, 2) == bytes.fromhex("02 0267 00")
    response = DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g", error_code=68)])
    assert encode_bytes(response, 1) == bytes.fromhex("00000000 00000001 0001 67 0044")
    assert encode_bytes(response, 2) == bytes.fromhex("00000000 02 0267 0044 00 00")
