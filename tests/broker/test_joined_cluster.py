"""Brokers that are controllers, too, in a cluster of several."""

import logging
import time

import pytest

from stratalog.broker.joined_cluster import lost_partitions
from stratalog.broker.node_cluster import BrokerState
from stratalog.client.admin import create_topic
from stratalog.metadata.image.directory_ids import UNASSIGNED
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.records.metadata import PartitionRecord, TopicRecord
from stratalog.wire.topic import TopicPartition
from tests.broker.nodes_of_a_cluster import RunningNodes

COMBINED = "broker,controller"


@pytest.fixture
def nodes(tmp_path):
    """Three nodes that are broker and controller."""
    made = RunningNodes(tmp_path, dict.fromkeys((1, 2, 3), COMBINED))
    yield made
    made.stop()


def started_together(nodes, *node_ids):
    """A node of several waits for a majority: the first start ends with the second."""
    import threading

    threads = [threading.Thread(target=nodes[one].start) for one in node_ids or nodes.members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return nodes


def active(nodes):
    """The node whose controller decides."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for member in nodes.members.values():
            if member._thread is not None and member.run(lambda member=member: member.node.quorum.is_active):
                return member
        time.sleep(0.02)
    raise AssertionError("no controller is active")


def names(member):
    return set(member.node.image.topics.by_name)


@pytest.mark.story
def test_any_broker_takes_commands_and_a_stop_moves_the_office(nodes, caplog):
    """Topics are spread over all; after the active controller has gone another one decides, and nothing is forgotten."""
    started_together(nodes)
    for node_id in nodes.members:
        create_topic(nodes[node_id].client(), f"t{node_id}", partition_count=3)
    for member in nodes.members.values():
        member.wait_until(lambda member=member: names(member) == {"t1", "t2", "t3"})
    image = nodes[1].node.image
    leaders = {state.leader for topic in image.topics.by_name.values() for state in topic.partitions.values()}
    assert leaders == {1, 2, 3}
    clusters = [member.node.cluster for member in nodes.members.values()]
    assert {cluster.broker_state for cluster in clusters} == {BrokerState.RUNNING}
    first = active(nodes)
    epoch = first.node.quorum.leader.epoch
    caplog.set_level(logging.INFO, logger="stratalog")
    caplog.clear()
    first.stop()
    second = active(nodes)
    assert second is not first
    order = [line for line in caplog.messages if "is the active controller in" in line or "lets it go" in line]
    assert [line.partition(":")[0].partition(" in ")[0] for line in order] == [
        f"node {second.node.node_id} is the active controller",
        f"broker {first.node.node_id}",
    ]
    assert second.node.quorum.leader.epoch > epoch
    rest = [member for member in nodes.members.values() if member is not first]
    for number, member in enumerate(rest):
        create_topic(member.client(), f"later{number}", partition_count=2)
    first.start()
    for member in nodes.members.values():
        member.wait_until(lambda member=member: names(member) == {"t1", "t2", "t3", "later0", "later1"})
    ids = {one.node.image.topics.by_name["later1"].topic_id for one in nodes.members.values()}
    assert len(ids) == 1


def test_producer_ids_are_given_out_once_in_the_whole_cluster(nodes):
    """Each broker has blocks of its own."""
    started_together(nodes)

    async def some(ids):
        return [await ids.next() for _ in range(1200)]

    given = [one for member in nodes.members.values() for one in member.run(some, member.node.producer_ids)]
    assert len(given) == len(set(given)) == 3600


def test_the_last_node_stops_without_a_controller(nodes):
    """Without a majority there is no controller that could let it go."""
    started_together(nodes)
    for node_id in (1, 2, 3):
        begun = time.monotonic()
        nodes[node_id].stop()
        assert time.monotonic() - begun < 4


def test_partitions_in_a_directory_that_the_broker_does_not_have_are_found():
    """Those of other brokers, and those whose directory has no name yet, are not."""
    mine, lost = b"m" * 16, b"l" * 16

    def partition(number, replica, directory):
        return PartitionRecord(
            partition_id=number,
            topic_id=b"t" * 16,
            replicas=[replica],
            isr=[replica],
            leader=replica,
            directories=[directory],
        )

    image = EMPTY_IMAGE.apply(
        [
            TopicRecord(name="t", topic_id=b"t" * 16),
            partition(0, 1, mine),
            partition(1, 1, lost),
            partition(2, 2, lost),
            partition(3, 1, UNASSIGNED),
        ]
    )
    assert lost_partitions(image, 1, (mine,)) == [(TopicPartition("t", 1), lost)]
