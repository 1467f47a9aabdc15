"""One node's disk: what is synced outlives a power cut, what is written outlives a kill."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.raft.log_view import BEFORE_THE_LOG, LogView
from stratalog.metadata.raft.messages import Batch, OffsetAndEpoch
from stratalog.metadata.raft.voter_set import VoterSet

__all__ = ["Disk", "Record", "records_of"]

Record = tuple[int, Any]
"""The epoch of a record and its content."""


def records_of(batch: Batch) -> list[Record]:
    """The records of a batch, one for each offset."""
    if batch.control:
        return [(batch.epoch, record) for record in batch.control]
    return [(batch.epoch, (batch.data, at)) for at in range(batch.end_offset - batch.base_offset)]


@dataclass(slots=True)
class Disk:
    """A directory with a log, snapshots and ``quorum-state``."""

    directory_id: bytes
    bootstrap: VoterSet = VoterSet()  # noqa: RUF009 - a value
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
        view = LogView()
        if self.bootstrap.voters:
            view = LogView(
                voter_sets=((BEFORE_THE_LOG, self.bootstrap),),
                kraft_versions=((BEFORE_THE_LOG, self.kraft_version),),
            )
        if self.start_offset:
            base = min(self.snapshots)
            _, voters, level = pickle.loads(self.snapshots[base])
            view = view.restarted_at(base, voters, level)
        view = view.appended(self.batches).flushed(self.end_offset)
        for snapshot in sorted(self.snapshots):
            view = view.with_snapshot(snapshot)
        return view

    def records(self, end_offset: int) -> list[Record]:
        """All records below an offset, those in the oldest snapshot too."""
        found: list[Record] = []
        if self.start_offset:
            found = list(pickle.loads(self.snapshots[min(self.snapshots)])[0])[: self.start_offset]
        for batch in self.batches:
            found += records_of(batch)
        return found[:end_offset]

    def read(self, offset: int, end_offset: int, count: int) -> tuple[Batch, ...]:
        """At most ``count`` batches from ``offset`` on."""
        found = [each for each in self.batches if offset <= each.base_offset and each.end_offset <= end_offset]
        return tuple(found[:count])

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

