"""ListGroups: what each version of the messages carries."""

from stratalog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """By states since 4, by types since 5."""
    request = ListGroupsRequest(states_filter=["Empty"], types_filter=["classic"])
    assert encode_bytes(request, 2) == b""
    assert encode_bytes(request, 3) == b"\0"
    assert encode_bytes(request, 4) == bytes.fromhex("02 06456d707479 00")
    assert encode_bytes(request, 5) == bytes.fromhex("02 06456d707479 02 08636c6173736963 00")


def test_response_versions():
    """Throttle time since 1, the state since 4, the type since 5."""
    group = ListedGroup(group_id="g", protocol_type="c", group_state="Empty", group_type="classic")
    response = ListGroupsResponse(groups=[group])
    assert encode_bytes(response, 0) == bytes.fromhex("0000 00000001 0001 67 0001 63")
    assert encode_bytes(response, 2) == bytes.fromhex("00000000 0000 00000001 0001 67 0001 63")
    assert encode_bytes(response, 4) == bytes.fromhex("00000000 0000 02 0267 0263 06456d707479 00 00")
    assert encode_bytes(response, 5) == bytes.fromhex("00000000 0000 02 0267 0263 06456d707479 08636c6173736963 00 00")
