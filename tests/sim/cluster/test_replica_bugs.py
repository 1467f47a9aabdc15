"""Bugs that were put into replication on purpose: the simulation has to find each within 200 seeds."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sim.cluster.plan import Kind, Plan
from stratalog.broker.fetches import replica_read
from stratalog.broker.replicas.follower import Follower
from stratalog.broker.replicas.leader import Leader
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.replication.in_sync_asking import InSyncAsks
from stratalog.hot import retention
from stratalog.hot.log.log import Log
from stratalog.hot.log.start import LogStart
from stratalog.hot.replica_state import ReplicaState
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.metadata.controller import alter_partition, partition_change
from stratalog.metadata.controller.reassignment import Assignment
from tests.sim.cluster.planted import BUSY, Bug, assert_found


def a_follower_cuts_its_log_to_its_high_watermark(patch):
    """As before KIP-101: it may lead next, without what it had acknowledged."""
    real = Partition.follow

    def follow(self, leader_id, leader_epoch):
        role = real(self, leader_id, leader_epoch)
        role.truncate(self.high_watermark, "that is its mark")
        return role

    patch.setattr(Partition, "follow", follow)


def a_follower_is_counted_before_its_sync(patch):
    """It asks for more when the records are in its file."""
    patch.setattr(Follower, "_durable_offset", property(lambda self: self._log.written_offset))


def a_leader_counts_the_smaller_set_at_once(patch):
    """It acknowledges without the member that it wants out, which the controller may still elect."""

    def members(self):
        return self.in_sync if self._pending is None else self._pending.broker_ids

    patch.setattr(ReplicaState, "maximal_in_sync", property(members))


def a_follower_appends_without_a_cut(patch):
    """Its leader does not say where histories part, and it goes on behind what only it has."""
    patch.setattr(replica_read, "divergence", lambda _unified, _wanted: None)


def a_broker_that_lost_its_disk_stays_in_sync(patch):
    """By the fetches and the registration of before."""
    patch.setattr(alter_partition, "_is_eligible", lambda *_about: True)
    patch.setattr(InSyncAsks, "may_join", lambda *_about: True)
    real = ReplicaState.follower_fetched

    def fetched(self, broker_id, fetch_offset, **more):
        state = self.follower(broker_id)
        return real(self, broker_id, max(fetch_offset, state.log_end_offset), **more)

    patch.setattr(ReplicaState, "follower_fetched", fetched)


def a_leader_acknowledges_what_is_in_its_own_log(patch):
    """It waits for no follower."""

    def advance(self):
        before, self.high_watermark = self.high_watermark, max(self.high_watermark, self.leader_end_offset)
        return self.high_watermark > before

    patch.setattr(ReplicaState, "_advance", advance)


def a_follower_joins_wherever_it_is(patch):
    """It need not have reached the mark."""

    def expansion(self, broker_id):
        if self._pending is not None or broker_id in self.in_sync:
            return None
        return self._begin_change((*self.in_sync, broker_id), grows=False)

    patch.setattr(ReplicaState, "expansion", expansion)


def an_idle_follower_never_joins_again(patch):
    """No fetch of it is counted once it has everything."""
    patch.setattr(Leader, "look_for_joiners", lambda self: None)


def latest_is_told_before_the_epoch_is_established(patch):
    """A new leader names its mark as the end of the log, though a reader has seen more."""
    patch.setattr(Partition, "is_behind", property(lambda self: False))


def a_follower_does_not_take_the_log_start(patch):
    """Records that were deleted stay on it for ever."""
    patch.setattr(Follower, "_raise_log_start", lambda self, _offset: None)


def a_follower_tells_of_a_log_start_that_a_crash_takes_back(patch):
    """Deleted records are back where it is lost, and the next leader has them."""
    patch.setattr(LogStart, "is_kept", property(lambda _self: True))


def the_mark_rises_with_too_few_in_sync(patch):
    """The answer alone waits for enough of them, as before KIP-966."""
    patch.setattr(ReplicaState, "enough_in_sync", property(lambda self: True))


def any_replica_is_elected(patch):
    """The controller elects who lives, in sync or not."""
    real = partition_change._elect

    def elect(partition, assignment, directories, sets, rules):
        return real(partition, assignment, directories, partition_change._Sets(assignment.replicas, ()), rules)

    patch.setattr(partition_change, "_elect", elect)


def a_reassignment_ends_at_once(patch):
    """The replicas that are added need not be in sync."""
    patch.setattr(
        partition_change,
        "completed",
        lambda assignment, *_: Assignment(tuple(one for one in assignment.replicas if one not in assignment.removing)),
    )


def a_follower_does_not_learn_of_producers(patch):
    """It would take a retry for a new batch once it leads."""
    real = Log.append_as_follower

    def append(self, records, **more):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(ProducerStateManager, "apply_batch", lambda *_, **__: None)
            return real(self, records, **more)

    patch.setattr(Log, "append_as_follower", append)


def a_damaged_replica_goes_on_above_the_damage(patch):
    """As the only replica of a partition does."""
    real = Log.open.__func__
    patch.setattr(
        Log, "open", classmethod(lambda cls, *about, **more: real(cls, *about, **{**more, "others_have_it": False}))
    )


def a_damaged_log_is_cut_while_it_is_led(patch):
    """Followers that know of no other leader yet cut theirs."""
    real = Partition.cut_before_damage

    def cut(self):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Partition, "resign", lambda _self: None)
            return real(self)

    patch.setattr(Partition, "cut_before_damage", cut)


def a_range_that_a_disk_has_lost_expires_at_once(patch):
    """Its leader takes the log start over it, and the others delete what is whole there."""
    real = retention._expired

    def expired(segments, *about):
        aged = [one if one.active or one.size_bytes else one._replace(size_bytes=1) for one in segments]
        return real(aged, *about)

    patch.setattr(retention, "_expired", expired)


FOUND: dict[Bug, str] = {
    a_follower_cuts_its_log_to_its_high_watermark: "is in sync and cuts|in sync, has|had the mark at|goes back|are gone",
    a_follower_is_counted_before_its_sync: "in sync, has",
    a_leader_counts_the_smaller_set_at_once: "in sync, has|had the mark at|goes back|are gone",
    a_follower_appends_without_a_cut: "bytes|held|epochs|offsets|cannot be appended|goes back|had the mark|are in sync",
    a_broker_that_lost_its_disk_stays_in_sync: "in sync, has|had the mark at|goes back|are gone|its log ends at",
    a_leader_acknowledges_what_is_in_its_own_log: "in sync, has|had the mark at",
    a_follower_joins_wherever_it_is: "in sync, has|had the mark at|are gone",
    an_idle_follower_never_joins_again: "are in sync",
    latest_is_told_before_the_epoch_is_established: "it had ended at",
    a_follower_does_not_take_the_log_start: "log start, mark and end",
    a_follower_tells_of_a_log_start_that_a_crash_takes_back: "log start, mark and end",
    the_mark_rises_with_too_few_in_sync: "moves the mark",
    any_replica_is_elected: "had the mark at",
    a_reassignment_ends_at_once: "had the mark at|are gone|has no leader|in sync, has",
    a_follower_does_not_learn_of_producers: "producers|is there twice|lies at offset",
    a_damaged_replica_goes_on_above_the_damage: "epochs|bytes|held|log start, mark and end|are in sync|had the mark at",
    a_damaged_log_is_cut_while_it_is_led: "is in sync and cuts|had the mark at|in sync, has|goes back|are gone",
    a_range_that_a_disk_has_lost_expires_at_once: "was to be kept|are gone|log start, mark and end",
}
"""Each bug, and what the promise that finds it says."""
PLANS: dict[Bug, Plan] = {
    a_broker_that_lost_its_disk_stays_in_sync: replace(BUSY, faults=("slow", "slow", "wipe"), fault_every=0.7),
    an_idle_follower_never_joins_again: replace(BUSY, faults=("freeze",), fault_seconds=20.0),
    latest_is_told_before_the_epoch_is_established: replace(BUSY, faults=("kill", "stop"), readers=3),
    a_follower_does_not_take_the_log_start: replace(BUSY, faults=("reset",), changes=("delete",)),
    a_follower_tells_of_a_log_start_that_a_crash_takes_back: replace(
        BUSY, faults=("kill", "power"), changes=("delete",)
    ),
    the_mark_rises_with_too_few_in_sync: replace(BUSY, faults=("freeze", "kill"), changes=("minimum",)),
    a_reassignment_ends_at_once: replace(BUSY, brokers=4, changes=("reassign",), faults=("kill", "slow")),
    a_damaged_replica_goes_on_above_the_damage: replace(BUSY, faults=("damage",)),
    a_damaged_log_is_cut_while_it_is_led: replace(BUSY, faults=("rot", "slow"), fault_every=0.7),
    a_range_that_a_disk_has_lost_expires_at_once: replace(
        BUSY,
        kind=Kind.EXPIRING,
        faults=("rot",),
        fault_every=0.7,
        settings=(("log.retention.check.interval.ms", "300"),),
    ),
    any_replica_is_elected: replace(BUSY, faults=("kill", "slow", "slow", "stop"), fault_every=0.7),
}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.__name__)
def test_every_bug_is_found(bug, monkeypatch):
    """By a promise that says what is wrong."""
    assert_found(bug, monkeypatch, PLANS.get(bug, BUSY), FOUND[bug])
