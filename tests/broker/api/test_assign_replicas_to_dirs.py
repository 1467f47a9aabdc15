"""AssignReplicasToDirs at an active controller."""

import pytest

from stratalog.broker.api.assign_replicas_to_dirs import API
from stratalog.metadata.image.features import METADATA_VERSION
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
)
from stratalog.wire.records.metadata import FeatureLevelRecord

FIRST, SECOND = b"f" * 16, b"s" * 16


@pytest.fixture
def one(memory_controller):
    """Broker 1 has two directories; it holds t-0, and t-1 is on broker 2 alone."""
    one = memory_controller()
    one.run(one.sessions.register(one.registration(1, directories=(FIRST, SECOND)), source=1))
    one.beat(1)
    one.start(2)
    one.topic("t", (1,), (2,))
    return one


def request(one, directories, moved=0):
    """``directories`` maps a directory to topics, and these to partitions."""
    return AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=one.epoch(1) + moved,
        directories=[
            AssignedDirectory(
                id=directory,
                topics=[
                    AssignedTopic(
                        topic_id=topic_id, partitions=[AssignedPartition(partition_index=number) for number in numbers]
                    )
                    for topic_id, numbers in topics.items()
                ],
            )
            for directory, topics in directories.items()
        ],
    )


def test_each_replica_is_answered_in_the_place_where_it_was_asked(one):
    """The directory is in the image; strangers and partitions of others are refused for themselves."""
    topic_id = one.image.topics.by_name["t"].topic_id
    answer = one.ask(API, request(one, {SECOND: {topic_id: [0, 1, 2], b"x" * 16: [0]}, FIRST: {}}))
    assert answer.error_code == ErrorCode.NONE
    assert [
        (directory.id, topic.topic_id, each.partition_index, ErrorCode(each.error_code).name)
        for directory in answer.directories
        for topic in directory.topics
        for each in topic.partitions
    ] == [
        (SECOND, topic_id, 0, "NONE"),
        (SECOND, topic_id, 1, "NOT_LEADER_OR_FOLLOWER"),
        (SECOND, topic_id, 2, "UNKNOWN_TOPIC_OR_PARTITION"),
        (SECOND, b"x" * 16, 0, "UNKNOWN_TOPIC_ID"),
    ]
    assert [directory.id for directory in answer.directories] == [SECOND, FIRST]
    assert one.state().directories == (SECOND,)
    assert one.state().leader == 1


def test_a_replica_in_a_directory_that_is_not_online_leads_no_more(one):
    """The broker noted it before the directory failed."""
    topic_id = one.image.topics.by_name["t"].topic_id
    answer = one.ask(API, request(one, {b"gone" * 4: {topic_id: [0]}}))
    assert answer.directories[0].topics[0].partitions[0].error_code == ErrorCode.NONE
    assert one.state().leader == -1


def test_an_old_level_comes_before_a_stale_epoch(one):
    """Both refuse the whole request."""
    assert one.ask(API, request(one, {}, moved=1)).error_code == ErrorCode.STALE_BROKER_EPOCH
    one.write(FeatureLevelRecord(name=METADATA_VERSION, feature_level=16))
    assert one.ask(API, request(one, {}, moved=1)).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_brokers_must_be_allowed_to_act_for_the_cluster():
    """As in Kafka."""
    assert (API.operation.name, API.resource.name) == ("CLUSTER_ACTION", "CLUSTER")
