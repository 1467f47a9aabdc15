"""Brokers that say where their replicas lie."""

import pytest

from stratalog.metadata.controller.assign_replicas import Placed, assign_replicas_to_directories
from stratalog.metadata.image.directory_ids import LOST, UNASSIGNED
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import FeatureLevelRecord

A, B, GONE = (bytes([letter]) * 16 for letter in b"ABG")


@pytest.fixture
def one(world):
    """Brokers 1, of two directories, and 2; three partitions on both."""
    one = world(elr=True, minimum=2)
    one.register(one.registration(1, directories=(A, B)))
    one.beat(1)
    one.start(2)
    one.topic("t", (1, 2), (1, 2), (2,))
    assert one.state().directories == (UNASSIGNED, b"\x02" * 16)
    return one


def assign(one, *placed, epoch=None):
    """The codes of the answer."""
    topic_id = one.image.topics.by_name["t"].topic_id
    wanted = [Placed(PartitionKey(topic_id, number), directory) for number, directory in placed]
    epoch = one.image.brokers.brokers[1].epoch if epoch is None else epoch
    return list(one.do(assign_replicas_to_directories(one.view, 1, epoch, wanted)))


def test_a_directory_is_noted_once_and_changes_no_leader(one):
    """The partition epoch rises, the leader epoch does not; the same again writes nothing."""
    assert assign(one, (0, A), (1, B)) == [ErrorCode.NONE] * 2
    assert [one.state("t", number).directories[0] for number in (0, 1)] == [A, B]
    assert (one.state().leader_epoch, one.state().partition_epoch) == (0, 1)
    end = one.next_offset
    assert assign(one, (0, A)) == [ErrorCode.NONE]
    assert one.next_offset == end


def test_a_replica_in_a_directory_that_is_not_online_leaves(one):
    """It cannot be served: another leads, and it is not eligible."""
    assert assign(one, (0, GONE)) == [ErrorCode.NONE]
    assert one.sets() == (2, (2,), ())
    assert one.state().directories == (GONE, b"\x02" * 16)


def test_partitions_that_are_unknown_or_not_the_brokers_have_their_codes(one):
    """Each for itself."""
    assert assign(one, (9, A), (2, A), (0, A)) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
    ]
    unknown = [Placed(PartitionKey(b"?" * 16, 0), A)]
    epoch = one.image.brokers.brokers[1].epoch
    assert assign_replicas_to_directories(one.view, 1, epoch, unknown).result == (ErrorCode.UNKNOWN_TOPIC_ID,)


def test_another_incarnation_and_a_level_without_directories_are_refused(one):
    """STALE_BROKER_EPOCH; UNSUPPORTED_VERSION below level 17."""
    with pytest.raises(KafkaError) as caught:
        assign(one, (0, A), epoch=1)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
    one.write((FeatureLevelRecord(name="metadata.version", feature_level=16),))
    with pytest.raises(KafkaError) as caught:
        assign(one, (0, A))
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_replica_that_its_broker_gives_up_leaves_both_sets_in_an_epoch_of_its_own(one):
    """Its log is damaged: it is about to cut what it has acknowledged. Fetches of before count no more."""
    epoch = one.state().leader_epoch
    assert assign(one, (0, LOST)) == [ErrorCode.NONE]
    assert one.sets() == (2, (2,), ())
    assert one.state().leader_epoch == epoch + 1
    assert assign(one, (0, A)) == [ErrorCode.NONE]
    assert one.sets() == (2, (2,), ())


def test_a_follower_that_is_given_up_raises_the_epoch_of_its_leader(one):
    """A fetch that it sent before may still be on its way."""
    one.topic("u", (2, 1))
    placed = [Placed(PartitionKey(one.image.topics.by_name["u"].topic_id, 0), LOST)]
    one.do(assign_replicas_to_directories(one.view, 1, one.image.brokers.brokers[1].epoch, placed))
    assert one.sets("u") == (2, (2,), ())
    assert one.state("u").leader_epoch == 1


@pytest.mark.parametrize("elr", [False, True])
def test_the_last_that_has_everything_is_not_given_up(world, elr):
    """The others have left since it was reported: it stays, and leads again as soon as its broker names its directory."""
    one = world(elr=elr, minimum=2)
    one.start(1, 2)
    one.topic("t", (1, 2))
    one.tick(20_000, 1)
    one.restart(2, is_clean=False)
    assert one.sets() == (1, (1,), ())
    assert assign(one, (0, LOST)) == [ErrorCode.NONE]
    assert one.sets()[0] == -1
    assert assign(one, (0, one.image.brokers.brokers[1].directories[0])) == [ErrorCode.NONE]
    assert one.sets() == (1, (1,), ())
