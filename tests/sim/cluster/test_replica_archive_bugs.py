"""Bugs that were put into archives of replicated partitions on purpose: the simulation has to find each within 200 seeds."""

from __future__ import annotations

import contextlib

import pytest
from msgspec.structs import replace

from sim.cluster.plan import Kind, Plan
from stratalog.broker.archive import partition_archive, tiering
from stratalog.broker.archive.partition_archive import Archive
from stratalog.broker.peers.peer_errors import PeerError
from stratalog.broker.replicas.follower import Follower
from stratalog.broker.replication import correcting
from stratalog.hot import retention
from stratalog.hot.cleaner.offset_map import OffsetMap
from stratalog.tier.manifests.parts import Claimant
from stratalog.tier.planning import plan_events
from stratalog.tier.work import archive_commands
from stratalog.wire.errors import KafkaError
from tests.sim.cluster.planted import BUSY, TIERED, Bug, assert_found


def a_follower_evicts_without_the_archive(patch):
    """Local segments go before its leader has moved their records to the bucket."""
    real = Follower.take

    def take(self, data, outcome):
        real(self, data, outcome)
        self.evict_below(self._log.active_base_offset)

    patch.setattr(Follower, "take", take)


def a_follower_evicts_what_its_leader_has_deleted(patch):
    """A local log start is taken for the archive's end, also where a DeleteRecords has moved it."""

    async def trim(self, role):
        with contextlib.suppress(PeerError, KafkaError):
            role.evict_below(await self._end(role, correcting._EARLIEST_LOCAL))

    patch.setattr(correcting.Correcting, "_trim", trim)


def a_leader_evicts_before_the_commit(patch):
    """Local files go as soon as an object is uploaded."""
    uploaded = Archive._uploaded

    def evict_at_once(self, ref, report):
        uploaded(self, ref, report)
        self._evict_below(plan_events.EvictBelow(ref.end))

    patch.setattr(Archive, "_uploaded", evict_at_once)


def a_replica_begins_behind_the_archive_without_its_epochs(patch):
    """An old fork would not be seen."""
    real = Follower.begin_behind
    patch.setattr(
        Follower,
        "begin_behind",
        lambda self, offset, _epochs, snapshot, start: real(self, offset, (), snapshot, start),
    )


def a_replica_begins_behind_the_archive_without_its_start(patch):
    """Records that the archive has are out of range once it leads."""
    real = Follower.begin_behind
    patch.setattr(
        Follower,
        "begin_behind",
        lambda self, offset, epochs, snapshot, _start: real(self, offset, epochs, snapshot, offset),
    )


def a_new_leader_goes_on_with_an_old_claim(patch):
    """A claim of a former leader epoch: what fences that leader is forgotten at the hand-over."""
    patch.setattr(
        tiering, "Claimant", lambda incarnation, _epoch, uuid, broker_id: Claimant(incarnation, 0, uuid, broker_id)
    )


def what_is_not_committed_is_archived(patch):
    """Up to the end of the leader's disk."""
    real = plan_events.Progress

    def progress(_high_watermark, _last_stable_offset, flushed_offset, eligible_end):
        return real(flushed_offset, flushed_offset, flushed_offset, eligible_end)

    patch.setattr(partition_archive.plan_events, "Progress", progress)


def an_object_is_committed_that_is_not_there(patch):
    """An upload ends well without having happened."""
    patch.setattr(archive_commands, "put_segment", lambda _store, built, **_: built.entry)


def retention_is_half_as_long(patch):
    """Records go before their time."""
    real = retention._expired
    patch.setattr(
        retention, "_expired", lambda segments, retention_ms, *about: real(segments, retention_ms // 4, *about)
    )


def the_cleaner_keeps_the_first_of_each_key(patch):
    """And drops the last one."""
    real = OffsetMap.put

    def put(self, key, offset):
        if self.get(key) < 0:
            real(self, key, offset)

    patch.setattr(OffsetMap, "put", put)


FOUND: dict[Bug, str] = {
    a_follower_evicts_without_the_archive: "the archive ends at",
    a_follower_evicts_what_its_leader_has_deleted: "the archive ends at",
    a_leader_evicts_before_the_commit: "the archive ends at",
    a_replica_begins_behind_the_archive_without_its_epochs: "epochs",
    a_replica_begins_behind_the_archive_without_its_start: "was to be kept|log start, mark and end|out of range",
    a_new_leader_goes_on_with_an_old_claim: "of epoch|wait for answers",
    what_is_not_committed_is_archived: "the mark has been",
    an_object_is_committed_that_is_not_there: "which is not there",
    retention_is_half_as_long: "was to be kept",
    the_cleaner_keeps_the_first_of_each_key: "is the last of key",
}
"""Each bug, and what the promise that finds it says."""
PLANS: dict[Bug, Plan] = {
    a_follower_evicts_what_its_leader_has_deleted: replace(
        TIERED, faults=("bucket", "bucket", "kill"), changes=("delete",), fault_every=0.5
    ),
    what_is_not_committed_is_archived: replace(TIERED, faults=("slow", "slow", "isolate"), lag_seconds=30.0),
    retention_is_half_as_long: replace(BUSY, kind=Kind.EXPIRING, settings=TIERED.settings),
    the_cleaner_keeps_the_first_of_each_key: replace(
        BUSY,
        kind=Kind.COMPACTED,
        settings=(("log.cleaner.enable", "true"), ("log.cleaner.backoff.ms", "200")),
    ),
}
"""Surroundings in which a rare story is less rare."""
DEFAULT = TIERED


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.__name__)
def test_every_bug_is_found(bug, monkeypatch):
    """By a promise that says what is wrong."""
    assert_found(bug, monkeypatch, PLANS.get(bug, TIERED), FOUND[bug])
