"""The election of leaders."""

import pytest

from stratalog.metadata.controller.election import Election, elect, partition_change
from stratalog.metadata.image.topics_image import NO_LEADER, LeaderRecovery, PartitionImage

_ID = b"t" * 16


@pytest.mark.parametrize(
    ("in_sync", "dead", "unclean", "election"),
    [
        ((3, 2), {1}, False, Election(2)),
        ((3,), {1}, False, Election(3)),
        ((), {1}, False, Election(NO_LEADER)),
        ((), {1}, True, Election(2, is_unclean=True)),
        ((1, 2, 3), set(), False, Election(1)),
        ((3, 2, 1), {1, 2, 3}, True, Election(NO_LEADER)),
    ],
)
def test_the_leader_is_the_first_replica_alive_and_in_sync(in_sync, dead, unclean, election):
    """AR [1,2,3], ISR {3,2}, 1 dies → 2; ISR {3} → 3; ISR {} → none, or with unclean election the loss is marked."""
    assert elect((1, 2, 3), in_sync, lambda broker: broker not in dead, unclean_allowed=unclean) == election


def test_a_leader_that_is_fine_stays_and_nothing_is_written():
    """No record without a change."""
    image = PartitionImage((1, 2), (1, 2), leader=1)
    assert partition_change(_ID, 0, image, (1, 2), lambda _: True, unclean_allowed=False) is None


def test_raising_the_epoch_names_the_same_leader_again():
    """A record with a leader raises the leader epoch, also when the leader stays."""
    image = PartitionImage((1, 2), (1, 2), leader=1, leader_epoch=4, partition_epoch=7)
    record = partition_change(_ID, 0, image, (1, 2), lambda _: True, unclean_allowed=False, raise_epoch=True)
    assert record is not None
    after = image.changed(record)
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 5, 8)
    assert after.in_sync_replicas == (1, 2)


def test_the_in_sync_set_never_becomes_empty():
    """The last member dies: the partition has no leader, but the membership is remembered."""
    image = PartitionImage((1, 2), (1,), leader=1)
    record = partition_change(_ID, 0, image, (), lambda broker: broker == 2, unclean_allowed=False)
    assert record is not None
    after = image.changed(record)
    assert (after.leader, after.in_sync_replicas) == (NO_LEADER, (1,))


def test_an_unclean_leader_is_alone_in_sync_and_must_recover():
    """The lost records are marked until the archive has been checked."""
    image = PartitionImage((1, 2), (1,), leader=1)
    record = partition_change(_ID, 0, image, (), lambda broker: broker == 2, unclean_allowed=True)
    assert record is not None
    after = image.changed(record)
    assert (after.leader, after.in_sync_replicas) == (2, (2,))
    assert after.leader_recovery is LeaderRecovery.RECOVERING
