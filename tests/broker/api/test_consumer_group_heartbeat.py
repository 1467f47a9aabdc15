"""ConsumerGroupHeartbeat on a running broker."""

import threading
from types import SimpleNamespace

import pytest

from stratalog.broker.api import consumer_group_heartbeat
from stratalog.broker.requests.authorizer import ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest


@pytest.fixture(scope="module")
def node(start_shared_node):
    """A broker that coordinates, with a topic of four partitions; assignments follow each other at once."""
    node = start_shared_node(group_consumer_assignment_interval_ms=0)
    node.create("t", 4)
    assert (
        node.link().call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6).coordinators[0].error_code == 0
    )
    node.wait_until(lambda: not node.node.groups.loading)
    return node


def beat(node, group, member_id, epoch, *, owned=None, version=1, **fields):
    topic_id = node.node.image.topics.by_name["t"].topic_id
    listed = None if owned is None else [TopicPartitions(topic_id=topic_id, partitions=owned)] if owned else []
    request = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, topic_partitions=listed, **fields
    )
    answer = node.link().call(request, version)
    given = answer.assignment and [list(part.partitions) for part in answer.assignment.topic_partitions]
    return answer, given


def join(node, group, member_id, **fields):
    wanted = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], **fields}
    return beat(node, group, member_id, 0, owned=[], **wanted)


@pytest.mark.parametrize("version", [0, 1])
def test_two_members_share(node, version):
    """The second member gets what the first one has given up."""
    group = f"share-{version}"
    _, given = join(node, group, "x", version=version)
    assert given == [[0, 1, 2, 3]]
    answer, given = join(node, group, "y", version=version)
    assert (answer.member_epoch, given) == (2, [])
    assert beat(node, group, "x", 1, version=version)[1] == [[0, 1]]
    assert beat(node, group, "x", 1, owned=[0, 1], version=version)[0].member_epoch == 2
    assert beat(node, group, "y", 2, version=version)[1] == [[2, 3]]
    assert beat(node, group, "x", -1, version=version)[0].member_epoch == -1
    assert beat(node, group, "y", 2, version=version)[1] == [[0, 1, 2, 3]]


def test_errors_have_their_words(node):
    """The code and the sentence stand in the answer."""
    answer, _ = beat(node, "none", "x", 1)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Consumer group none not found.",
    )
    answer, _ = join(node, "e", "", version=1)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    answer, _ = join(node, "e", "x", subscribed_topic_regex="(")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_member_that_leaves_behind_its_join_by_a_new_expression_is_gone(broker):
    """A thread finds out the matches of the expression. A leave that was handled first left a ghost that held its partitions."""
    broker.create("t")
    broker.link().call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    broker.wait_until(lambda: not broker.node.groups.loading)
    link, said = broker.link(), {"group_id": "g", "member_id": "x", "topic_partitions": []}
    joins = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "subscribed_topic_regex": "t.*"}
    link.send(ConsumerGroupHeartbeatRequest(**said, **joins), 1)
    link.send(ConsumerGroupHeartbeatRequest(**said, member_epoch=-1), 1)
    assert [(one.error_code, one.member_epoch) for one in (link.receive(), link.receive())] == [(0, 1), (0, -1)]


@pytest.mark.story
def test_a_group_survives_a_restart(start_node):
    """A group is the same after the broker was started again."""
    node = start_node(directory="again", group_consumer_assignment_interval_ms=0)
    node.create("t", 4)
    node.link().call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    node.wait_until(lambda: not node.node.groups.loading)
    join(node, "g", "x")
    node.stop()
    node = start_node(directory="again", group_consumer_assignment_interval_ms=0)
    node.wait_until(lambda: not node.node.groups.loading)
    answer, given = beat(node, "g", "x", 1)
    assert (answer.error_code, answer.member_epoch, given) == (0, 1, None)


def _context(denied=None, protocols=("classic", "consumer")):
    config = SimpleNamespace(texts={"group.coordinator.rebalance.protocols": protocols}.__getitem__)
    return SimpleNamespace(
        broker=SimpleNamespace(config=config), allows=lambda _name, _operation=None, resource=None: resource != denied
    )


REQUEST = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"])


@pytest.mark.parametrize(
    ("context", "code"),
    [
        (_context(denied=None), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (_context(denied=ResourceType.TOPIC), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (_context(protocols=["classic"]), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_forbidden_heartbeats_are_refused(context, code):
    """Callers that may not read the group or know the topic, and a broker on which the protocol is switched off."""
    with pytest.raises(KafkaError) as caught:
        consumer_group_heartbeat.handle(context, REQUEST)
    assert caught.value.code is code


def test_expressions_of_clients_that_have_gone_wait_for_the_thread_no_longer(broker, monkeypatch):
    """There is room for so many, and the others would be refused."""
    broker.create("t")
    broker.link().call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    broker.wait_until(lambda: not broker.node.groups.loading)
    patterns, gate = broker.node.groups.patterns, threading.Event()
    match = patterns._match
    monkeypatch.setattr(patterns, "_match", lambda *args: gate.wait() and match(*args))
    links = [broker.link() for _ in range(3)]
    try:
        for number, link in enumerate(links):
            joins = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "subscribed_topic_regex": f"t{number}"}
            said = {"group_id": "g", "member_id": "x", "topic_partitions": []}
            link.send(ConsumerGroupHeartbeatRequest(**said, **joins), 1)
        broker.wait_until(lambda: patterns._waiting == 3)
        for link in links:
            link.close()
        broker.wait_until(lambda: patterns._waiting == 0)
    finally:
        gate.set()
