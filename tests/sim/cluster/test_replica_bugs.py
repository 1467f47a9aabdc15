"""Bugs that were put into replication on purpose: the simulation has to find each within 200 seeds."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from sim.cluster.plan import Plan
from sim.cluster.world import run_seed
from stratalog.broker.fetches import replica_read
from stratalog.broker.replicas.follower import Follower
from stratalog.broker.replicas.leader import Leader
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.replication.in_sync_asking import InSyncAsks
from stratalog.hot.replica_state import ReplicaState
from stratalog.metadata.controller import alter_partition

Bug = Callable[[pytest.MonkeyPatch], None]


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
    patch.setattr(Follower, "is_durable", property(lambda self: self._log.written_offset >= self._log.log_end_offset))


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


FOUND: dict[Bug, str] = {
    a_follower_cuts_its_log_to_its_high_watermark: "is in sync and cuts|in sync, has|had the mark at|goes back|are gone",
    a_follower_is_counted_before_its_sync: "in sync, has",
    a_leader_counts_the_smaller_set_at_once: "in sync, has|had the mark at|goes back|are gone",
    a_follower_appends_without_a_cut: "bytes|held|epochs|offsets|cannot be appended|goes back|had the mark|are in sync",
    a_broker_that_lost_its_disk_stays_in_sync: "in sync, has|had the mark at|goes back|are gone|its log ends at",
    a_leader_acknowledges_what_is_in_its_own_log: "in sync, has|had the mark at",
    a_follower_joins_wherever_it_is: "in sync, has|had the mark at|are gone",
    an_idle_follower_never_joins_again: "are in sync",
}
"""Each bug, and what the promise that finds it says."""
BUSY = Plan(
    controllers=1,
    brokers=3,
    faults=("freeze", "isolate", "kill", "power"),
    fault_every=1.5,
    fault_seconds=15.0,
    pause_every=4.0,
    replicated_topics=1,
    replicated_partitions=2,
    lag_seconds=2.0,
    producers=2,
    readers=1,
)
PLANS: dict[Bug, Plan] = {
    a_broker_that_lost_its_disk_stays_in_sync: replace(BUSY, faults=("slow", "slow", "wipe"), fault_every=0.7),
    an_idle_follower_never_joins_again: replace(BUSY, faults=("freeze",), fault_seconds=20.0),
}
SEEDS_MAX = 200


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.__name__)
def test_every_bug_is_found(bug, monkeypatch):
    """By a promise that says what is wrong."""
    bug(monkeypatch)
    plan = PLANS.get(bug, BUSY)
    dice = random.Random(0)
    outcomes = (
        run_seed(seed, plan=replace(plan, replicated_partitions=dice.choice((1, 2, 3)))) for seed in range(SEEDS_MAX)
    )
    found = next((outcome for outcome in outcomes if outcome.problem is not None), None)
    assert found is not None, f"{SEEDS_MAX} seeds did not find it"
    print(f"seed {found.seed}: {found.problem}")
    assert re.search(FOUND[bug], found.problem), found.problem
