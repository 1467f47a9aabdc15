"""ListGroups over the wire."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api import list_groups
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(link_to_groups, version):
    """With state from version 4, type from version 5 on."""
    answer = link_to_groups.call(ListGroupsRequest(), version)
    assert answer.error_code == 0
    found = {one.group_id: (one.protocol_type, one.group_state, one.group_type) for one in answer.groups}
    assert found["empty"] == ("consumer", "Empty" if version >= 4 else "", "classic" if version >= 5 else "")
    assert "busy" in found


def test_groups_are_filtered_in_any_case(link_to_groups):
    """By state and by type (KIP-518, KIP-848)."""

    def listed(**filters):
        return {one.group_id for one in link_to_groups.call(ListGroupsRequest(**filters), 5).groups}

    assert listed(states_filter=["eMPTY"]) == {"empty"}
    assert listed(types_filter=["Classic"], states_filter=["CompletingRebalance"]) == {"busy"}
    assert listed(types_filter=["consumer"]) == set()
    assert listed(states_filter=["nonsense"]) == set()


def test_while_groups_are_loaded():
    """A list would be incomplete: the client asks again."""
    context = SimpleNamespace(broker=SimpleNamespace(groups=SimpleNamespace(loading=True)))
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        list_groups.API.handle(context, ListGroupsRequest())


def test_listed_groups_by_permission():
    """Without the cluster only those that the caller may describe; groups are described."""
    answers = []

    def ask(event):
        groups = [ListedGroup(group_id=name, protocol_type="consumer") for name in ("mine", "theirs")]
        event.token.respond(ListGroupsResponse(groups=groups))

    groups = SimpleNamespace(loading=False, drivers=lambda: [SimpleNamespace(ask=ask)])
    context = SimpleNamespace(
        broker=SimpleNamespace(groups=groups),
        allows=lambda name, *_: name == "mine",
        respond=answers.append,
    )
    list_groups.API.handle(context, ListGroupsRequest())
    assert [one.group_id for one in answers[0].groups] == ["mine"]
    assert (list_groups.API.operation, list_groups.API.resource) == (Operation.DESCRIBE, ResourceType.GROUP)


def test_a_shard_that_fails():
    """Its error is that of the whole."""
    answers = []

    def ask(event):
        event.token.fail(KafkaError(ErrorCode.NOT_COORDINATOR))

    groups = SimpleNamespace(loading=False, drivers=lambda: [SimpleNamespace(ask=ask)])
    context = SimpleNamespace(broker=SimpleNamespace(groups=groups), allows=lambda *_: True, respond=answers.append)
    list_groups.API.handle(context, ListGroupsRequest())
    assert (answers[0].error_code, answers[0].groups) == (ErrorCode.NOT_COORDINATOR, [])
