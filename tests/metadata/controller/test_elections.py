"""Elections on request."""

import pytest

from stratalog.metadata.controller.controller import ElectionType, NewTopic, create_topics, elect_leaders, fence_broker
from stratalog.metadata.image.topics_image import NO_LEADER
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord
from stratalog.wire.topic import TopicPartition

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN
T0 = TopicPartition("t", 0)


@pytest.fixture
def image(cluster, rules, topic_ids):
    """Three brokers, one topic whose preferred leader is 1."""
    image = cluster(1, 2, 3)
    topic = NewTopic("t", assignments=[(0, [1, 2])])
    return image.apply(create_topics(image, [topic], rules, new_topic_id=topic_ids, next_int=lambda _: 0).records)


def moved(image, leader, in_sync=(1, 2)):
    """The image with another leader."""
    topic_id = image.topics.by_name["t"].topic_id
    return image.apply([PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=leader, isr=list(in_sync))])


def outcomes(decision):
    return [(one, None if failure is None else failure.code) for one, failure in decision.result]


def test_the_preferred_replica_takes_over(image):
    """If it is alive and in sync; the leader epoch rises."""
    image = moved(image, 2)
    decision = elect_leaders(image, PREFERRED, [T0])
    assert outcomes(decision) == [(T0, None)]
    partition = image.apply(decision.records).topics.partition("t", 0)
    assert (partition.leader, partition.leader_epoch) == (1, 2)


def test_a_preferred_replica_that_is_not_there_is_not_elected(image):
    """Out of sync or fenced: PREFERRED_LEADER_NOT_AVAILABLE, and nothing is written."""
    behind = moved(image, 2, in_sync=[2])
    fenced = moved(image, 2).apply(
        [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=image.brokers.brokers[1].epoch, fenced=1)]
    )
    for one in (behind, fenced):
        decision = elect_leaders(one, PREFERRED, [T0])
        assert outcomes(decision) == [(T0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
        assert decision.records == ()


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_where_all_is_well_no_election_is_needed(image, kind):
    """Said of each partition that was named; of all partitions nothing is said."""
    decision = elect_leaders(image, kind, [T0])
    assert outcomes(decision) == [(T0, ErrorCode.ELECTION_NOT_NEEDED)]
    assert elect_leaders(image, kind, None).result == ()


def test_an_unclean_election_takes_any_living_replica(image):
    """The partition has no leader, and the replica may be out of sync; without a living one the code is
    ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    alone = moved(image, 1, in_sync=[1])
    alone = alone.apply(fence_broker(alone, 1, unclean_allowed=lambda _: False).records)
    assert alone.topics.partition("t", 0).leader == NO_LEADER
    decision = elect_leaders(alone, UNCLEAN, None)
    assert outcomes(decision) == [(T0, None)]
    assert alone.apply(decision.records).topics.partition("t", 0).leader == 2
    leaderless = alone.apply(fence_broker(alone, 2, unclean_allowed=lambda _: False).records)
    assert outcomes(elect_leaders(leaderless, UNCLEAN, [T0])) == [(T0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]


def test_missing_partitions_have_a_code(image):
    """Topics and partitions each for themselves, an unknown type for the whole request."""
    named = [TopicPartition("t", 7), TopicPartition("u", 0)]
    assert outcomes(elect_leaders(image, PREFERRED, named)) == [
        (one, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for one in named
    ]
    with pytest.raises(KafkaError, match="Unknown election type 9") as caught:
        elect_leaders(image, 9, None)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
