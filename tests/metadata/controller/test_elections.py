"""Elections on request."""

import pytest

from stratalog.metadata.controller import elections
from stratalog.metadata.controller.cluster_view import ClusterView, ReplicationSettings
from stratalog.metadata.controller.controller import ElectionType, NewTopic, create_topics, fence_broker
from stratalog.metadata.controller.elections import balance_leaders, elect_missing, elect_uncleanly
from stratalog.metadata.controller.reassign_partitions import Move, reassign_partitions
from stratalog.metadata.image.topics_image import NO_LEADER
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord
from stratalog.wire.topic import TopicPartition

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN
T0 = TopicPartition("t", 0)


def view_of(image, *, unclean_allowed=False):
    """The view of a controller without an index."""
    return ClusterView(image=image, settings=lambda _name: ReplicationSettings(unclean_allowed=unclean_allowed))


def elect_leaders(image, kind, named):
    """The shipped command, on a view of ``image``."""
    return elections.elect_leaders(view_of(image), kind, named)


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


def test_an_unclean_election_on_request_takes_a_replica_that_is_being_added_if_no_other_lives(image):
    """The former holders may be about to come back: that they are gone for good is for an administrator to say."""
    gone = moved(image, 1, in_sync=[1])
    gone = gone.apply(reassign_partitions(view_of(gone), [Move(T0, (3,))]).records)
    gone = gone.apply(fence_broker(gone, 2, unclean_allowed=lambda _: True).records)
    gone = gone.apply(fence_broker(gone, 1, unclean_allowed=lambda _: True).records)
    assert elect_uncleanly(view_of(gone, unclean_allowed=True)).records == ()
    assert gone.apply(elect_leaders(gone, UNCLEAN, [T0]).records).topics.partition("t", 0).leader == 3


def test_missing_partitions_have_a_code(image):
    """Topics and partitions each for themselves, an unknown type for the whole request."""
    named = [TopicPartition("t", 7), TopicPartition("u", 0)]
    assert outcomes(elect_leaders(image, PREFERRED, named)) == [
        (one, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for one in named
    ]
    with pytest.raises(KafkaError, match="Unknown election type 9") as caught:
        elect_leaders(image, 9, None)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_leaderships_go_back_to_preferred_replicas_a_bounded_number_at_once(image, rules, topic_ids):
    """Two of three partitions in the first round, the last one in the second, and no more after that."""
    more = NewTopic("u", assignments=[(0, [1, 2]), (1, [1, 2])])
    image = image.apply(create_topics(image, [more], rules, new_topic_id=topic_ids, next_int=lambda _: 0).records)
    ids = [(topic.topic_id, number) for topic in image.topics.by_id.values() for number in topic.partitions]
    image = image.apply([PartitionChangeRecord(topic_id=id_, partition_id=number, leader=2) for id_, number in ids])
    found = []
    for _ in range(3):
        decision = balance_leaders(view_of(image), elections_max=2)
        image = image.apply(decision.records)
        found.append((len(decision.records), decision.result))
    assert found == [(2, True), (1, False), (0, False)]
    assert all(state.leader == 1 for topic in image.topics.by_id.values() for state in topic.partitions.values())


def test_unclean_elections_are_held_where_the_topic_allows_them(image):
    """A partition whose only member in sync is fenced; allowed, the living replica leads and recovers."""
    alone = moved(image, 1, in_sync=[1])
    alone = alone.apply(fence_broker(alone, 1, unclean_allowed=lambda _: False).records)
    assert elect_uncleanly(view_of(alone)).records == ()
    after = alone.apply(elect_uncleanly(view_of(alone, unclean_allowed=True)).records).topics.partition("t", 0)
    assert (after.leader, after.in_sync_replicas, after.leader_recovery.name) == (2, (2,), "RECOVERING")


def test_a_replica_that_has_everything_leads_where_no_other_does(image):
    """Its broker lives; one that may lack records is not elected by this, whatever the topic allows."""
    leaderless = moved(image, NO_LEADER)
    after = leaderless.apply(elect_missing(view_of(leaderless)).records)
    assert after.topics.partition("t", 0).leader == 1
    assert elect_missing(view_of(after)).records == ()
    lacking = moved(image, NO_LEADER, in_sync=(2,))
    gone = lacking.apply(fence_broker(lacking, 2, unclean_allowed=lambda _: False).records)
    assert elect_missing(view_of(gone, unclean_allowed=True)).records == ()
