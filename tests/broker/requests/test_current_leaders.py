"""The leaders beside an error, from the image and for the listener of the client."""

import pytest

from stratalog.broker.requests.current_leaders import CurrentLeader, CurrentLeaders, LeaderEndpoint
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.records.metadata import (
    BrokerEndpoint,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from stratalog.wire.topic import ZERO_UUID

ID = b"t" * 16


def broker(broker_id, *listeners, fenced=False):
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=1,
        incarnation_id=bytes(16),
        end_points=[
            BrokerEndpoint(name=name, host=name.lower(), port=9000 + broker_id, security_protocol=0)
            for name in listeners
        ],
        features=[],
        rack=f"r{broker_id}",
        fenced=fenced,
    )


def led_by(partition, leader):
    return PartitionRecord(
        partition_id=partition,
        topic_id=ID,
        replicas=[2],
        isr=[2],
        leader=leader,
        leader_epoch=7 + partition,
        partition_epoch=0,
    )


@pytest.fixture
def image():
    """Topic t with a partition for each case."""
    brokers = [broker(1, "IN", "OUT"), broker(2, "IN"), broker(3, "IN", "OUT", fenced=True)]
    partitions = [led_by(0, 1), led_by(1, 2), led_by(2, 3), led_by(3, -1), led_by(4, 1)]
    return EMPTY_IMAGE.apply([*brokers, TopicRecord(name="t", topic_id=ID), *partitions])


@pytest.mark.parametrize(("name", "topic_id"), [("t", ZERO_UUID), ("", ID)])
def test_a_leader_is_named_with_the_endpoint_of_the_clients_listener(image, name, topic_id):
    """By name and by id; each node stands once."""
    leaders = CurrentLeaders(image, "OUT")
    assert leaders.of(name, topic_id, 0) == CurrentLeader(1, 7)
    assert leaders.of(name, topic_id, 4) == CurrentLeader(1, 11)
    assert leaders.endpoints == {1: LeaderEndpoint(1, "out", 9001, "r1")}


@pytest.mark.parametrize(("partition", "leader"), [(1, 2), (2, 3), (3, -1)])
def test_a_leader_that_cannot_be_reached_has_no_endpoint(image, partition, leader):
    """It has no such listener, is fenced, or there is none: the epoch stands there all the same."""
    leaders = CurrentLeaders(image, "OUT")
    assert leaders.of("t", ZERO_UUID, partition) == CurrentLeader(leader, 7 + partition)
    assert leaders.endpoints == {}


def test_a_partition_that_is_not_in_the_image_has_no_leader(image):
    """Another topic, another partition, an id of before, a topic that is gone."""
    leaders = CurrentLeaders(image, "IN")
    assert leaders.of("u", ID, 0) is None
    assert leaders.of("t", ZERO_UUID, 9) is None
    assert leaders.of("", b"x" * 16, 0) is None
    gone = CurrentLeaders(image.apply([RemoveTopicRecord(topic_id=ID)]), "IN")
    assert gone.of("t", ZERO_UUID, 0) is gone.of("", ID, 0) is None


def test_a_change_of_leader_comes_with_its_epoch(image):
    """As soon as the image has it."""
    moved = image.apply([PartitionChangeRecord(partition_id=0, topic_id=ID, leader=2)])
    leaders = CurrentLeaders(moved, "IN")
    assert leaders.of("t", ZERO_UUID, 0) == CurrentLeader(2, 8)
    assert [*leaders.endpoints] == [2]
