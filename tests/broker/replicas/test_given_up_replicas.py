"""A replica whose log is gone is reported as lost, and stops to count before another replica leads."""

from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import pytest

from stratalog.metadata.image.directory_ids import LOST
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.following import follow_and_open

NAME = TopicPartition("t", 0)


@pytest.fixture
def reports(broker):
    """The waiting reports by (topic id, partition): a replica of ``t`` whose log was not found at the start."""
    broker.create("t")
    hosted, waiting = broker.node.hosted, {}
    hosted.placing._placements = SimpleNamespace(
        placed=lambda topic_id, number, directory: waiting.__setitem__((topic_id, number), directory),
        gone=lambda topic_id, number: waiting.pop((topic_id, number), None),
    )
    topic, unified = broker.node.image.topics.by_name["t"], broker.partition("t")
    broker.run(hosted.table.remove, unified)
    hosted.logs.given_up[NAME] = topic.topic_id
    broker.run(hosted.table.add_unopened, "t", topic.topic_id, 0, "its log is gone")
    assert broker.run(hosted.placing.give_up, topic.topic_id, 0, topic.partitions[0])
    assert waiting == {(topic.topic_id, 0): LOST}
    return waiting


def test_a_lost_replica_is_reported_no_longer_when_its_topic_is_deleted(broker, reports):
    """The controller refuses it for ever (UNKNOWN_TOPIC_ID), and each refusal delays all other reports."""
    topic = broker.node.image.topics.by_name["t"]
    broker.run(lambda: list(broker.node.hosted.deleting("t", topic.topic_id)))
    assert (reports, broker.node.hosted.logs.given_up) == ({}, {})


def test_a_lost_replica_is_reported_no_longer_when_other_brokers_have_it(broker, reports):
    """It is refused as well. Its log is not missed when the partition comes back, and is no reason to be not ready."""
    topic, others = broker.node.image.topics.by_name["t"], broker.node.node_id + 1
    state = replace(topic.partitions[0], leader=others, replicas=(others,), in_sync_replicas=(others,))
    moved = replace(topic, partitions=MappingProxyType({0: state}))
    broker.run(follow_and_open, broker.node.hosted, broker.node.image, moved)
    assert (reports, broker.node.hosted.logs.given_up) == ({}, {})
    assert broker.node.hosted.table.closed == []


def test_a_lost_replica_that_counts_is_reported_until_the_image_has_it(broker, reports):
    """Another leader changes nothing about that."""
    topic, other = broker.node.image.topics.by_name["t"], broker.node.node_id + 1
    state = topic.partitions[0]
    state = replace(state, leader=other, replicas=(*state.replicas, other), in_sync_replicas=(other,))
    broker.run(broker.node.hosted._follow, broker.node.image, topic, 0, state)
    assert list(reports.values()) == [LOST]
