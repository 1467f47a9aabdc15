"""Heartbeats that repeat themselves on their connection: nothing but the time they take tells that they are remembered."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.runtime.event_loop import ready_sockets_of
from stratalog.broker.shortcuts.heartbeat import HeartbeatShortcut
from stratalog.client.link import BrokerLink
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.sync_group import SyncGroupRequest


@pytest.fixture(scope="module")
def node(start_shared_node):
    """A broker that coordinates, with a topic of four partitions; assignments follow each other at once."""
    node = start_shared_node(group_consumer_assignment_interval_ms=0, group_initial_rebalance_delay_ms=0)
    node.create("t", 4)
    assert (
        not node.link().call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6).coordinators[0].error_code
    )
    node.wait_until(lambda: not node.node.groups.loading)
    return node


@pytest.fixture
def link(node):
    """A connection of the test's own, while there is no other."""
    node.wait_until(lambda: not remembered(node))
    with BrokerLink("127.0.0.1", node.port) as link:
        yield link


def remembered(node):
    """The connections' shortcuts; to be called in the loop."""
    return [one.shortcut for one in node.node.server.connections if one.shortcut is not None]


def shortcuts(node):
    """The same from outside."""
    return node.run(remembered, node)


def consumer(link, group, member_id, epoch, version=1, **fields):
    """A heartbeat of the consumer protocol; its answer."""
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **fields)
    return link.call(request, version)


def join(link, group, member_id, **fields):
    """Join and get everything."""
    return consumer(
        link, group, member_id, 0,
        rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[], **fields,
    )  # fmt: skip


@pytest.mark.parametrize("version", [0, 1])
def test_the_second_of_two_equal_heartbeats_is_remembered(version, node, link):
    """And answered as the first, with its own correlation id, which the link checks; both are counted."""
    group = f"equal-{version}"
    epoch = join(link, group, "a").member_epoch
    assert shortcuts(node) == []
    first = consumer(link, group, "a", epoch, version)
    (shortcut,) = shortcuts(node)
    metrics = shortcut._row.metrics
    counted = sum(metrics.time_buckets)
    assert [consumer(link, group, "a", epoch, version) for _ in range(3)] == [first] * 3
    assert shortcuts(node) == [shortcut]
    assert sum(metrics.time_buckets) == counted + 3
    assert first.heartbeat_interval_ms == 5_000


def test_news_reach_the_member(node, link):
    """Another member, an epoch that is fenced, a setting: the very next heartbeat tells."""
    epoch = join(link, "news", "a").member_epoch
    for _ in range(2):
        assert consumer(link, "news", "a", epoch).assignment is None
    with BrokerLink("127.0.0.1", node.port) as other:
        join(other, "news", "b")
        answer = consumer(link, "news", "a", epoch)
        assert len(answer.assignment.topic_partitions[0].partitions) == 2
        assert consumer(other, "news", "a", -1).error_code == 0
    assert consumer(link, "news", "a", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_other_requests_on_the_connection_do_not_disturb(node, link):
    """A commit between two heartbeats, as consumers send it."""
    epoch = join(link, "commits", "a").member_epoch
    consumer(link, "commits", "a", epoch)
    (shortcut,) = shortcuts(node)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    commit = OffsetCommitRequest(
        group_id="commits",
        member_id="a",
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    assert link.call(commit, 9).topics[0].partitions[0].error_code == 0
    assert consumer(link, "commits", "a", epoch).member_epoch == epoch
    assert shortcuts(node) == [shortcut]


def test_a_shard_that_is_loaded_anew_is_asked_itself(node, link):
    """The memory of the one before is not believed."""
    epoch = join(link, "anew", "a").member_epoch
    consumer(link, "anew", "a", epoch)
    (before,) = shortcuts(node)
    driver = node.node.groups.host.of("anew")
    node.run(driver._drop, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    node.wait_until(lambda: driver.active)
    assert consumer(link, "anew", "a", epoch).member_epoch == epoch
    (after,) = shortcuts(node)
    assert isinstance(after, HeartbeatShortcut)
    assert after is not before


def test_answers_wait_for_what_they_tell_of(node, link):
    """While a record of the shard is not committed yet, a heartbeat goes where its answer can wait."""
    epoch = join(link, "wait", "a").member_epoch
    consumer(link, "wait", "a", epoch)
    driver = node.node.groups.host.of("wait")
    under_way = SimpleNamespace(late=[])
    node.run(driver._under_way.append, under_way)
    link.send(ConsumerGroupHeartbeatRequest(group_id="wait", member_id="a", member_epoch=epoch), 1)
    (reply,) = node.wait_until(lambda: under_way.late)
    node.run(driver._under_way.pop)
    node.run(reply.token.respond, reply.response)
    assert link.receive().member_epoch == epoch


def test_classic_members_take_the_shortcut_until_a_rebalance(node, link):
    """Until the group rebalances."""
    joined = JoinGroupRequest(
        group_id="classic",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
    )
    answer = link.call(joined, 3)
    link.call(SyncGroupRequest(group_id="classic", generation_id=answer.generation_id, member_id=answer.member_id), 3)
    beat = HeartbeatRequest(group_id="classic", generation_id=answer.generation_id, member_id=answer.member_id)
    assert [link.call(beat, 4).error_code for _ in range(3)] == [0, 0, 0]
    assert len(shortcuts(node)) == 1
    with BrokerLink("127.0.0.1", node.port) as other:
        other.send(joined, 3)
        node.wait_until(
            lambda: node.node.groups.host.of("classic").shard.groups["classic"].state == "PreparingRebalance"
        )
        assert link.call(beat, 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def resting(node):
    """The descriptors that rest; to be called in the loop."""
    return len(ready_sockets_of(asyncio.get_running_loop())._resting)


def test_a_connection_of_heartbeats_rests_until_it_sends_something_else(node, link):
    """And while it rests everything is answered as before."""
    epoch = join(link, "rests", "a").member_epoch
    for beats in range(4):
        assert node.run(resting, node) == (beats > 2)
        assert consumer(link, "rests", "a", epoch).error_code == 0
    for _ in range(5):
        assert consumer(link, "rests", "a", epoch).member_epoch == epoch
    assert node.run(resting, node) == 1
    assert not link.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6).coordinators[0].error_code
    assert node.run(resting, node) == 0
    for _ in range(3):
        consumer(link, "rests", "a", epoch)
    assert node.run(resting, node) == 1
    link.close()
    node.wait_until(lambda: not resting(node))
