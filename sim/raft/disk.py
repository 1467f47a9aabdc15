"""One node's disk: what is synced outlives a power cut, what is written outlives a kill."""

from __future__ import annotations

import pickle
from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import Any

from msgspec import Struct, field

from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.raft.log_view import BEFORE_THE_LOG, LogView
from stratalog.metadata.raft.messages import Batch, OffsetAndEpoch
from stratalog.metadata.raft.voter_set import VoterSet

__all__ = ["Disk", "Record", "decoded", "records_of"]

Record = tuple[int, Any]
"""The epoch of a record and its content."""


@lru_cache(maxsize=64)
def decoded(content: bytes) -> tuple[tuple[Record, ...], VoterSet, int]:
    """Records, voters and ``kraft.version`` of a snapshot."""
    records, voters, level = pickle.loads(content)
    return records, voters, level


def records_of(batch: Batch) -> list[Record]:
    """The records of a batch, one for each offset."""
    if batch.control:
        return [(batch.epoch, record) for record in batch.control]
    return [(batch.epoch, (batch.data, at)) for at in range(batch.end_offset - batch.base_offset)]


class Disk(Struct):
    """A directory with a log, snapshots and ``quorum-state``."""

    directory_id: bytes
    bootstrap: VoterSet = VoterSet()
    """The voters of the 0-0 checkpoint or of the settings; empty in a directory that has neither."""
    kraft_version: int = 1
    quorum_state: QuorumState | None = None
    batches: list[Batch] = field(default_factory=list)
    start_offset: int = 0
    flushed_offset: int = 0
    snapshots: dict[OffsetAndEpoch, bytes] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        """The end of what is written."""
        return self.batches[-1].end_offset if self.batches else self.start_offset

    def view(self) -> LogView:
        """The log as a start finds it. A start syncs what it finds."""
        self.flushed_offset = self.end_offset
        view = self._view()
        if view.overtaken_by is not None:
            self.install(view.overtaken_by, self.snapshots[view.overtaken_by])
            view = self._view()
        return view

    def _view(self) -> LogView:
        view = LogView()
        if self.bootstrap.voters:
            view = LogView(
                voter_sets=((BEFORE_THE_LOG, self.bootstrap),),
                kraft_versions=((BEFORE_THE_LOG, self.kraft_version),),
            )
        if self.start_offset:
            base = min(self.snapshots)
            _, voters, level = decoded(self.snapshots[base])
            view = view.restarted_at(base, voters, level)
        view = view.appended(self.batches).flushed(self.end_offset)
        for snapshot in sorted(self.snapshots):
            view = view.with_snapshot(snapshot)
        return view

    def records(self, end_offset: int, start_offset: int = 0) -> list[Record]:
        """The records ``[start_offset, end_offset)``, those in the oldest snapshot too."""
        found: list[Record] = []
        if start_offset < self.start_offset:
            found = list(decoded(self.snapshots[min(self.snapshots)])[0][start_offset:])
        first = self._batch_at(max(start_offset, self.start_offset))
        skipped = start_offset - (
            self.batches[first].base_offset if first < len(self.batches) and not found else start_offset
        )
        for batch in self.batches[first:]:
            if batch.base_offset >= end_offset:
                break
            found += records_of(batch)
        return found[skipped : skipped + end_offset - start_offset]

    def _batch_at(self, offset: int) -> int:
        """The number of the batch with this offset."""
        return max(0, bisect_right(self.batches, offset, key=lambda each: each.base_offset) - 1)

    def read(self, offset: int, end_offset: int, count: int) -> tuple[Batch, ...]:
        """At most ``count`` batches from ``offset`` on."""
        first = bisect_left(self.batches, offset, key=lambda each: each.base_offset)
        return tuple(each for each in self.batches[first : first + count] if each.end_offset <= end_offset)

    def snapshot_bytes(self, snapshot: OffsetAndEpoch, view: LogView) -> bytes:
        """The content of a snapshot of this log."""
        voters, level = view.voters_at(snapshot.offset), view.kraft_version_at(snapshot.offset)
        return pickle.dumps((tuple(self.records(snapshot.offset)), voters, level))

    def install(self, snapshot: OffsetAndEpoch, content: bytes) -> None:
        """Put a whole snapshot in place of the log."""
        self.snapshots = {snapshot: content}
        self.batches = []
        self.start_offset = self.flushed_offset = snapshot.offset

    def truncate(self, offset: int) -> None:
        """Cut the log off."""
        self.batches = [each for each in self.batches if each.end_offset <= offset]
        self.flushed_offset = min(self.flushed_offset, offset)

    def clean(self, snapshot: OffsetAndEpoch) -> None:
        """Let go of what a snapshot has."""
        self.snapshots = {each: content for each, content in self.snapshots.items() if each >= snapshot}
        self.batches = [each for each in self.batches if each.base_offset >= snapshot.offset]
        self.start_offset = max(self.start_offset, snapshot.offset)

    def lose_power(self, survivors: int) -> None:
        """Lose unsynced batches but the first ``survivors`` of them."""
        synced = [each for each in self.batches if each.end_offset <= self.flushed_offset]
        self.batches = self.batches[: len(synced) + survivors]
