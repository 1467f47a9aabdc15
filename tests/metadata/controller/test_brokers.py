"""Brokers that start, leave and ask for producer ids."""

import itertools
import random

import pytest

from stratalog.metadata.controller.brokers import (
    PRODUCER_IDS_PER_BLOCK,
    begin_producer_era,
    first_producer_id_of_era,
    raise_leader_epoch,
    unregister_broker,
)
from stratalog.metadata.controller.cluster_view import ClusterView, ReplicationSettings
from stratalog.metadata.controller.controller import (
    NewTopic,
    allocate_producer_ids,
    check_broker_epoch,
    create_topics,
    fence_broker,
    register_broker,
)
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.image.topics_image import NO_LEADER, LeaderRecovery
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import FeatureLevelRecord, PartitionChangeRecord, ProducerIdsRecord


def _view(image):
    return ClusterView(image=image, settings=lambda _topic: ReplicationSettings())


def _never(_topic):
    return False


@pytest.fixture
def with_topic(cluster, rules, topic_ids):
    """An image of three brokers and one topic on all of them, led by 1."""
    image = cluster(1, 2, 3)
    topic = NewTopic("t", assignments=[(0, [1, 2, 3])])
    return image.apply(create_topics(image, [topic], rules, new_topic_id=topic_ids, next_int=lambda _: 0).records)


def test_a_started_broker_is_registered_and_active(cluster):
    """Its listeners, directories and features are in the image, and it may lead."""
    broker = cluster(1).brokers.brokers[1]
    assert broker.is_active
    assert broker.listeners["PLAINTEXT"].port == 9093
    assert len(broker.directories) == 1
    assert broker.features["metadata.version"].maximum == 30


def test_each_start_raises_the_broker_epoch(cluster, start_of):
    """The epoch is the offset of the registration; one that is not higher is refused."""
    image = cluster(1)
    decision = register_broker(image, start_of(1), broker_epoch=50, unclean_allowed=_never)
    assert decision.result == 50
    assert image.apply(decision.records).brokers.brokers[1].epoch == 50
    with pytest.raises(KafkaError) as caught:
        register_broker(image, start_of(1), broker_epoch=10, unclean_allowed=_never)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_each_start_raises_the_leader_epoch_of_what_the_broker_leads(with_topic, start_of):
    """Each leadership raises the epoch, restart included; what others lead stays as it is."""
    after = with_topic.apply(register_broker(with_topic, start_of(1), broker_epoch=50, unclean_allowed=_never).records)
    partition = after.topics.partition("t", 0)
    assert (partition.leader, partition.leader_epoch, partition.in_sync_replicas) == (1, 1, (1, 2, 3))
    decision = register_broker(after, start_of(2), broker_epoch=60, unclean_allowed=_never)
    assert [record for record in decision.records if isinstance(record, PartitionChangeRecord)] == []


def test_a_returning_broker_takes_partitions_without_a_leader(cluster, rules, topic_ids, start_of):
    """A partition without leader is led again by the member of its in-sync set that comes back."""
    image = cluster(1)
    image = image.apply(
        create_topics(image, [NewTopic("t")], rules, new_topic_id=topic_ids, next_int=lambda _: 0).records
    )
    image = image.apply(fence_broker(image, 1, unclean_allowed=_never).records)
    assert image.topics.partition("t", 0).leader == NO_LEADER
    image = image.apply(register_broker(image, start_of(1), broker_epoch=90, unclean_allowed=_never).records)
    partition = image.topics.partition("t", 0)
    assert (partition.leader, partition.leader_epoch) == (1, 2)


def test_a_broker_too_old_for_the_cluster_is_refused(start_of):
    """A finalized level beyond what it can run, or an unknown feature."""
    for record in (
        FeatureLevelRecord(name="group.version", feature_level=9),
        FeatureLevelRecord(name="share.version", feature_level=1),
    ):
        image = EMPTY_IMAGE.apply([record])
        with pytest.raises(KafkaError, match=record.name) as caught:
            register_broker(image, start_of(1), broker_epoch=1, unclean_allowed=_never)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_leader_is_the_first_in_assigned_order_that_is_alive_and_in_sync(with_topic):
    """AR [1,2,3], 1 dies → 2, and 1 leaves the in-sync set."""
    after = with_topic.apply(fence_broker(with_topic, 1, unclean_allowed=_never).records)
    partition = after.topics.partition("t", 0)
    assert (partition.leader, partition.in_sync_replicas) == (2, (2, 3))
    assert not after.brokers.is_active(1)


def test_the_last_in_sync_replica_is_never_given_up(with_topic):
    """ISR {3} dies with unclean election off: no leader, and 3 stays in the set, or is eligible where the cluster has that."""
    image = with_topic.apply([FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)])
    for broker in (1, 2, 3):
        image = image.apply(fence_broker(image, broker, unclean_allowed=_never).records)
    partition = image.topics.partition("t", 0)
    assert (partition.leader, partition.in_sync_replicas) == (NO_LEADER, (3,))
    image = with_topic
    for broker in (1, 2, 3):
        image = image.apply(fence_broker(image, broker, unclean_allowed=_never).records)
    partition = image.topics.partition("t", 0)
    assert (partition.leader, partition.in_sync_replicas, partition.eligible_leader_replicas) == (NO_LEADER, (), (3,))


def test_unclean_election_marks_the_leader_as_recovering(with_topic):
    """Unclean on: another replica leads alone, and the loss is marked until the check is done."""
    image = with_topic
    topic_id = image.topics.by_name["t"].topic_id
    image = image.apply([PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[1])])
    image = image.apply(fence_broker(image, 1, unclean_allowed=lambda _: True).records)
    partition = image.topics.partition("t", 0)
    assert (partition.leader, partition.in_sync_replicas) == (2, (2,))
    assert partition.leader_recovery is LeaderRecovery.RECOVERING


def test_an_unknown_broker_cannot_be_fenced(cluster):
    """BROKER_ID_NOT_REGISTERED."""
    with pytest.raises(KafkaError) as caught:
        fence_broker(cluster(1), 2, unclean_allowed=_never)
    assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_blocks_of_producer_ids_never_overlap(cluster):
    """A thousand each, one behind the other."""
    image = cluster(1)
    blocks = []
    for _ in range(3):
        decision = allocate_producer_ids(image, 1, 10)
        image = image.apply(decision.records)
        blocks.append(decision.result)
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]


def test_producer_ids_end_somewhere(cluster):
    """Beyond int64 there are none."""
    image = cluster(1).apply([ProducerIdsRecord(broker_id=1, next_producer_id=(1 << 63) - 500)])
    with pytest.raises(KafkaError, match="Exhausted all producerIds"):
        allocate_producer_ids(image, 1, 10)


@pytest.mark.parametrize(("broker_id", "epoch"), [(2, 10), (1, 9), (1, 11)])
def test_a_request_of_another_registration_is_stale(cluster, broker_id, epoch):
    """STALE_BROKER_EPOCH unless id and epoch are the present ones."""
    with pytest.raises(KafkaError) as caught:
        check_broker_epoch(cluster(1), broker_id, epoch)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_that_is_gone_is_forgotten(with_topic):
    """It leaves the registrations and the in-sync sets, what it led is led by another."""
    decision = unregister_broker(_view(with_topic), 1, only_broker=2)
    after = with_topic.apply(decision.records)
    assert sorted(after.brokers.brokers) == [2, 3]
    partition = after.topics.partition("t", 0)
    assert (partition.leader, partition.in_sync_replicas, partition.replicas) == (2, (2, 3), (1, 2, 3))


@pytest.mark.parametrize(("broker_id", "code"), [(9, "BROKER_ID_NOT_REGISTERED"), (2, "INVALID_REQUEST")])
def test_neither_an_unknown_broker_nor_the_one_that_answers_is_forgotten(with_topic, broker_id, code):
    """A running broker would only come back."""
    with pytest.raises(KafkaError) as caught:
        unregister_broker(_view(with_topic), broker_id, only_broker=2)
    assert caught.value.code is ErrorCode[code]


def test_a_leader_epoch_is_raised_above_one_that_was_found(with_topic):
    """Once; one that is higher already stays, and a topic that is gone has none."""
    topic_id = with_topic.topics.by_name["t"].topic_id
    raised = raise_leader_epoch(with_topic, topic_id, 0, above=41)
    image = with_topic.apply(raised.records)
    partition = image.topics.partition("t", 0)
    assert (raised.result, partition.leader_epoch, partition.leader) == (42, 42, 1)
    again = raise_leader_epoch(image, topic_id, 0, above=41)
    assert (again.records, again.result) == ((), 42)
    with pytest.raises(KafkaError) as caught:
        raise_leader_epoch(image, bytes(16), 0, above=41)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_ID


def started(image, draw):
    """A start begins an era, and gives out a block of it: the image then, and the block."""
    image = image.apply(begin_producer_era(image, 1, draw).records)
    given = allocate_producer_ids(image, 1, image.brokers.brokers[1].epoch)
    return image.apply(given.records), given.result


def test_an_era_of_producer_ids_begins_above_the_one_before(cluster):
    """Ids below it are given up by transactional ids, as their epochs may be known to archives."""
    image = cluster(1)
    assert first_producer_id_of_era(image) == 0
    for draw in (0, 1, (1 << 64) - 1):
        before = image.next_producer_id
        image, block = started(image, draw)
        assert before < block.first_id == first_producer_id_of_era(image)


def test_eras_never_run_out(cluster):
    """After 5000 starts with the highest draw the first id is still below 2**62."""
    image = cluster(1)
    for _ in range(5_000):
        image = image.apply(begin_producer_era(image, 1, (1 << 64) - 1).records)
    assert started(image, 0)[1].first_id < 1 << 62


@pytest.mark.parametrize("seed", range(5))
def test_no_history_of_a_disk_gives_out_a_producer_id_twice(cluster, seed):
    """Starts, ids that are given out, and copies that come back in any order, the same one again and again."""
    dice = random.Random(seed)
    image, given, copies = cluster(1), [], [cluster(1)]
    for _ in range(400):
        match dice.randrange(4):
            case 0:
                copies.append(image)
            case 1:
                image, block = started(copies[dice.randrange(len(copies))], dice.getrandbits(64))
                given.append(block.first_id)
            case _:
                decision = allocate_producer_ids(image, 1, image.brokers.brokers[1].epoch)
                image = image.apply(decision.records)
                given.append(decision.result.first_id)
    given.sort()
    assert all(later - earlier >= PRODUCER_IDS_PER_BLOCK for earlier, later in itertools.pairwise(given))
