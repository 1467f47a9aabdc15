"""ListGroups over the wire."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.api import list_groups
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.broker.runtime.slices import to_the_end
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def _at_once():
    """The module beside this one."""
    spec = importlib.util.spec_from_file_location("at_once", Path(__file__).with_name("at_once.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.AtOnce


class Asked(_at_once()):
    """A context whose shards answer with ``ask``."""

    def __init__(self, *asks, allows=lambda *_: True):
        self.drivers = drivers = [SimpleNamespace(partition_number=at, ask=ask) for at, ask in enumerate(asks)]
        self.broker = SimpleNamespace(groups=SimpleNamespace(loading=False, drivers=lambda: drivers))
        self.allows = allows
        self.answers = []
        self.respond = self.answers.append


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


def groups_of(*names):
    """A shard that has these groups."""

    def ask(event):
        groups = [ListedGroup(group_id=name, protocol_type="consumer") for name in names]
        event.token.respond(ListGroupsResponse(groups=groups))

    return ask


def test_listed_groups_by_permission():
    """Without the cluster only those that the caller may describe; groups are described."""
    context = Asked(groups_of("mine", "theirs"), groups_of("theirs too"), allows=lambda name, *_: name == "mine")
    list_groups.API.handle(context, ListGroupsRequest())
    assert [one.group_id for one in context.answers[0].groups] == ["mine"]
    assert (list_groups.API.operation, list_groups.API.resource) == (Operation.DESCRIBE, ResourceType.GROUP)


def test_a_shard_that_fails():
    """Its error is that of the whole."""
    context = Asked(groups_of("a"), lambda event: event.token.fail(KafkaError(ErrorCode.NOT_COORDINATOR)))
    list_groups.API.handle(context, ListGroupsRequest())
    assert (context.answers[0].error_code, context.answers[0].groups) == (ErrorCode.NOT_COORDINATOR, [])


def test_others_have_their_turn_between_shards_and_groups():
    """A shard is asked when the one before has been answered for."""
    asked = []

    def ask(event):
        asked.append(event)
        groups_of("a", "b")(event)

    context = Asked(ask, ask)
    context.sliced = lambda steps: steps
    steps = list_groups.API.handle(context, ListGroupsRequest())
    next(steps)
    assert len(asked) == 1
    assert sum(1 for _ in steps) > 4
    assert len(asked) == 2


def test_shards_that_come_and_go_between_slices():
    """One that went is listed elsewhere, which is no error; while one is loaded the list would be incomplete."""

    def closed(_):
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    for loading, expected in ((False, (0, ["a"])), (True, (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []))):
        context = Asked(groups_of("a"), closed)
        context.sliced = lambda steps: steps
        steps = list_groups.API.handle(context, ListGroupsRequest())
        next(steps)
        context.drivers.pop()
        context.broker.groups.loading = loading
        answer = to_the_end(steps)
        assert (answer.error_code, [one.group_id for one in answer.groups]) == expected


def test_a_shard_that_is_led_anew_between_slices_is_listed():
    """Its driver is another one. Its groups were left out, although they were coordinated here all the time."""
    context = Asked(groups_of("a"), groups_of("b"))
    context.sliced = lambda steps: steps
    steps = list_groups.API.handle(context, ListGroupsRequest())
    next(steps)
    context.drivers[1] = SimpleNamespace(partition_number=1, ask=groups_of("b", "c"))
    assert [one.group_id for one in to_the_end(steps).groups] == ["a", "b", "c"]
