"""Bugs that were put into coordinators that fail over, and into transactions: each has to be found within 200 seeds."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sim.cluster.plan import Plan
from stratalog.broker.coordinators import shard_driver
from stratalog.broker.coordinators.shard_driver import ShardDriver
from stratalog.broker.replicas.partition import Partition
from stratalog.hot.log.log import Log
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.metadata.groups.offsets.committed_offsets import CommittedOffsets
from stratalog.metadata.groups.offsets.requests import TransactionEnded
from tests.sim.cluster.planted import BUSY, Bug, assert_found


def a_coordinator_answers_before_its_followers_have_it(patch):
    """Its word may be gone with it."""
    real = ShardDriver._append

    def append(self, group):
        real(self, group)
        for appended in self._under_way:
            for write in appended.writes:
                for reply in write.replies:
                    shard_driver._answer(reply)
                write.replies = ()

    patch.setattr(ShardDriver, "_append", append)


def committed_offsets_are_forgotten(patch):
    """A coordinator that loads its log takes no offsets from it."""
    patch.setattr(CommittedOffsets, "replay", lambda *_, **__: None)


def open_transactions_are_shown(patch):
    """Readers of committed records read up to the high watermark."""
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def aborted_transactions_are_shown(patch):
    """Fetch answers do not name them."""
    patch.setattr(Log, "aborted_transactions", lambda *_: [])


def a_follower_does_not_note_the_ends_of_transactions(patch):
    """Once it leads it takes them for open."""
    real = Log.append_as_follower

    def append(self, records, **more):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(ProducerStateManager, "apply_marker", lambda *_, **__: None)
            return real(self, records, **more)

    patch.setattr(Log, "append_as_follower", append)


def offsets_do_not_wait_for_their_transaction(patch):
    """A transaction that is aborted commits its offsets, as one that is committed."""
    ended = CommittedOffsets.transaction_ended

    def always_committed(self, event):
        ended(self, TransactionEnded(event.producer, commit=True))

    patch.setattr(CommittedOffsets, "transaction_ended", always_committed)


def retries_are_appended(patch):
    """Batches of idempotent producers are not compared with the last ones."""
    patch.setattr(ProducerStateManager, "check_batch", lambda *_, **__: None)


FOUND: dict[Bug, str] = {
    a_coordinator_answers_before_its_followers_have_it: "it had been at|is committed at|a reader|is hidden|is shown",
    committed_offsets_are_forgotten: "it had been at|is committed at",
    open_transactions_are_shown: "a reader",
    aborted_transactions_are_shown: "a reader|is shown",
    a_follower_does_not_note_the_ends_of_transactions: "producers|not everything could be read|a reader",
    offsets_do_not_wait_for_their_transaction: "is committed at",
    retries_are_appended: "is there twice|lies at offset|producers",
}
"""Each bug, and what the promise that finds it says."""
WITH_ALL = replace(BUSY, producers=0, transactions=2, fault_seconds=10.0)
GROUPS = replace(BUSY, producers=1, consumer_members=2, classic_members=2, fault_every=1.0)
PLANS: dict[Bug, Plan] = {
    a_coordinator_answers_before_its_followers_have_it: replace(
        WITH_ALL,
        faults=("freeze", "isolate", "kill", "slow", "slow"),
        lag_seconds=30.0,
        classic_members=2,
        fault_every=1.0,
    ),
    retries_are_appended: replace(BUSY, faults=("reset", "kill", "isolate"), fault_every=0.7),
}
"""Surroundings in which a rare story is less rare."""
DEFAULT = WITH_ALL


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.__name__)
def test_every_bug_is_found(bug, monkeypatch):
    """By a promise that says what is wrong."""
    assert_found(bug, monkeypatch, PLANS.get(bug, WITH_ALL), FOUND[bug])
