"""Bugs that were put in on purpose: the simulation has to find each within a few seeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest

from sim.world import Outcome, run_seed
from stratalog.broker.archive.partition_archive import Archive
from stratalog.broker.network.connection import Connection
from stratalog.broker.replicas import directories
from stratalog.broker.replicas.partition import Partition
from stratalog.hot.directory import LogDirectory
from stratalog.hot.log.log import Log
from stratalog.hot.log.sync import SyncTicket
from stratalog.hot.recovery import recovery
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.metadata.groups.offsets.committed_offsets import CommittedOffsets
from stratalog.metadata.groups.offsets.requests import TransactionEnded
from stratalog.tier.planning import plan_events
from stratalog.tier.work import archive_commands

Bug = Callable[[pytest.MonkeyPatch], None]


def acknowledged_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """Written bytes count as synced."""
    written = Partition.on_written

    def on_written(self):
        written(self)
        self._advance(self.log.written_offset)

    patch.setattr(Partition, "on_written", on_written)


def no_sync_of_data(patch: pytest.MonkeyPatch) -> None:
    """Names are synced, the bytes of files are not."""
    run = SyncTicket.run

    def names_only(self):
        self._files = ()
        run(self)

    patch.setattr(SyncTicket, "run", names_only)


def no_sync_of_names(patch: pytest.MonkeyPatch) -> None:
    """Files are synced, the directories that hold their names are not."""
    run = SyncTicket.run

    def data_only(self):
        self._directories = ()
        run(self)

    patch.setattr(SyncTicket, "run", data_only)


def evicted_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Local files go as soon as an object is uploaded."""
    uploaded = Archive._uploaded

    def evict_at_once(self, ref, report):
        uploaded(self, ref, report)
        self._evict_below(plan_events.EvictBelow(ref.end))

    patch.setattr(Archive, "_uploaded", evict_at_once)


def committed_without_an_object(patch: pytest.MonkeyPatch) -> None:
    """An upload ends well without having happened."""
    patch.setattr(archive_commands, "put_segment", lambda _store, built, **_: built.entry)


def retries_are_appended(patch: pytest.MonkeyPatch) -> None:
    """Batches of idempotent producers are not compared with the last ones."""
    patch.setattr(ProducerStateManager, "check_batch", lambda *_, **__: None)


def producers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The batches that a restart reads again tell it nothing of their producers."""
    patch.setattr(recovery, "apply_stored_batch", lambda *_: None)


def log_starts_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Checkpoints are not written."""
    patch.setattr(LogDirectory, "write_recovery_points", lambda *_: None)
    patch.setattr(LogDirectory, "store_bounds", lambda *_: None)

    def nothing(*_):
        yield
        return lambda: None

    patch.setattr(directories, "recovery_point_steps", nothing)
    patch.setattr(directories, "bounds_steps", nothing)


def answers_overtake(patch: pytest.MonkeyPatch) -> None:
    """An immediate answer does not wait for requests parked before it."""

    def answer(self, _slot, parts):
        self._out += parts
        self._schedule_flush()

    park = Connection.park

    def park_what_waits(self, slot):
        if slot.parts is None:
            park(self, slot)
        else:
            answer(self, slot, slot.parts)

    patch.setattr(Connection, "answer", answer)
    patch.setattr(Connection, "park", park_what_waits)


def open_transactions_are_shown(patch: pytest.MonkeyPatch) -> None:
    """Readers of committed records read up to the high watermark."""
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def aborted_transactions_are_shown(patch: pytest.MonkeyPatch) -> None:
    """Fetch answers do not name them."""
    patch.setattr(Log, "aborted_transactions", lambda *_: [])


def committed_offsets_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that loads its log takes no offsets from it."""
    patch.setattr(CommittedOffsets, "replay", lambda *_, **__: None)


def offsets_do_not_wait_for_their_transaction(patch: pytest.MonkeyPatch) -> None:
    """A transaction that is aborted commits its offsets, as one that is committed."""
    ended = CommittedOffsets.transaction_ended

    def always_committed(self, event):
        ended(self, TransactionEnded(event.producer, commit=True))

    patch.setattr(CommittedOffsets, "transaction_ended", always_committed)


SEEDS_MAX = 100
SEED_TRIED_FIRST: dict[Bug, int] = {offsets_do_not_wait_for_their_transaction: 40}
"""A seed that has found the bug before; after a change of the simulation another one may be the first that does."""

BUGS: dict[Bug, str] = {
    acknowledged_before_the_sync: "was acknowledged|out of order|held",
    no_sync_of_data: "was acknowledged|out of order|held|it had been at|records are lost|is committed at",
    no_sync_of_names: "was acknowledged|out of order|not there after a restart|held|lost|it had been at",
    evicted_before_the_commit: "evicted below",
    committed_without_an_object: "which is not there",
    retries_are_appended: "there twice",
    producers_are_forgotten: "there twice|lies at offset|out of order|a reader",
    log_starts_are_forgotten: "it had started at|evicted below",
    answers_overtake: "came where",
    open_transactions_are_shown: "a reader",
    aborted_transactions_are_shown: "a reader",
    committed_offsets_are_forgotten: "it had been at|is committed at",
    offsets_do_not_wait_for_their_transaction: "is committed at",
}
"""Each bug, and what the invariant that finds it says."""
BY_DEFAULT = frozenset(
    {
        no_sync_of_data,
        no_sync_of_names,
        committed_without_an_object,
        producers_are_forgotten,
        answers_overtake,
        open_transactions_are_shown,
    }
)
"""Those that are found soonest, of every kind; `make test-slow` plants all."""


def first_failure(seeds: Iterable[int]) -> Outcome | None:
    """The first seed that finds something."""
    for seed in seeds:
        outcome = run_seed(seed)
        if outcome.problem is not None:
            return outcome
    return None


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=() if bug in BY_DEFAULT else pytest.mark.slow) for bug in BUGS],
    ids=lambda bug: bug.__name__,
)
def test_every_bug_is_found(bug, monkeypatch):
    """By an invariant that says what is wrong."""
    bug(monkeypatch)
    outcome = first_failure([SEED_TRIED_FIRST.get(bug, 0), *range(SEEDS_MAX)])
    assert outcome is not None, f"{SEEDS_MAX} seeds did not find it"
    assert re.search(BUGS[bug], outcome.problem), outcome.problem
