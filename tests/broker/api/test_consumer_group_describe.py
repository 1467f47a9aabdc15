"""ConsumerGroupDescribe on a running broker, and who may see what."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.api import consumer_group_describe
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest


@pytest.fixture(scope="module")
def link(shared_broker):
    """A connection to a broker with a group ``g`` of one member."""
    shared_broker.create("t", 2)
    shared_broker.link().call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    shared_broker.wait_until(lambda: not shared_broker.node.groups.loading)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert shared_broker.link().call(request, 1).error_code == 0
    return shared_broker.link()


@pytest.mark.parametrize("version", [0, 1])
def test_groups_in_the_order_asked(link, version):
    """One answer for each group, errors among them; member types since version 1."""
    answer = link.call(ConsumerGroupDescribeRequest(group_ids=["none", "g", ""]), version)
    none, group, empty = answer.groups
    assert (none.error_code, none.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")
    assert empty.error_code == ErrorCode.INVALID_GROUP_ID
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 1, 1)
    assert group.assignor_name == "uniform"
    [member] = group.members
    assert (member.member_id, member.member_epoch, member.member_type) == ("m", 1, 1 if version else -1)
    [part] = member.assignment.topic_partitions
    assert (part.topic_name, part.partitions) == ("t", [0, 1])
    assert group.authorized_operations == -(1 << 31)


def test_operations_of_the_caller_are_answered_if_asked(link):
    """The caller's operations on a group, if it asks."""
    answer = link.call(ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True), 1)
    assert answer.groups[0].authorized_operations & (1 << Operation.READ)


def test_an_empty_request_has_an_empty_answer(link):
    """An empty request has an empty answer."""
    assert link.call(ConsumerGroupDescribeRequest(group_ids=[]), 1).groups == []


def _at_once():
    """The module beside this one."""
    spec = importlib.util.spec_from_file_location("at_once", Path(__file__).with_name("at_once.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.AtOnce


AtOnce = _at_once()


def _describe(denied, groups):
    """The groups as a caller sees them to whom ``denied`` resources are not allowed."""
    found = []

    def ask(token, _context, group_id, _request):
        group = groups[group_id]
        if isinstance(group, Exception):
            token.fail(group)
        else:
            token.respond(ConsumerGroupDescribeResponse(groups=[group]))

    context = AtOnce()
    context.broker = SimpleNamespace(groups=SimpleNamespace(ask=ask))
    context.allows = lambda _name, _operation=None, resource=ResourceType.GROUP: resource not in denied
    context.respond = found.append
    consumer_group_describe.handle(context, ConsumerGroupDescribeRequest(group_ids=list(groups)))
    return found[0].groups


def _group():
    nothing = Assignment()
    member = Member(
        member_id="m",
        member_epoch=1,
        client_id="c",
        client_host="h",
        subscribed_topic_names=["t"],
        assignment=nothing,
        target_assignment=nothing,
    )
    return DescribedGroup(group_id="g", members=[member])


@pytest.mark.parametrize(
    ("denied", "code"),
    [
        ([], ErrorCode.NONE),
        ([ResourceType.GROUP], ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ([ResourceType.TOPIC], ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_group_that_the_caller_may_not_describe_is_an_error(denied, code):
    """A group that the caller may not describe, or one of whose topics it may not know of, is an error."""
    [group] = _describe(denied, {"g": _group()})
    assert group.error_code == code
    assert len(group.members) == (not code)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.NOT_COORDINATOR), ErrorCode.NOT_COORDINATOR),
        (ValueError("x"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_shard_that_fails(error, code):
    """The other groups are answered all the same."""
    groups = _describe([], {"g": error, "h": _group()})
    assert [group.error_code for group in groups] == [code, 0]


def test_a_group_that_is_named_again_is_answered_once(link):
    """A request of a kilobyte named one group a hundred times, and made 368 MB."""
    answer = link.call(ConsumerGroupDescribeRequest(group_ids=["g", "none", "g", "g"]), 1)
    assert [group.group_id for group in answer.groups] == ["g", "none"]
