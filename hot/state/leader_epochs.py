"""Which leader wrote which offsets: the leader-epoch history of one partition, and its truncation rules.

Pure. The file is ``leader-epoch-checkpoint``. Sources: KIP-101, KIP-279, KIP-320, Kafka's ``LeaderEpochFileCache``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from stratalog.wire.errors import Corrupt

__all__ = ["UNDEFINED_EPOCH", "UNDEFINED_EPOCH_OFFSET", "EpochEnd", "EpochEntry", "LeaderEpochCache"]

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1

_HEADER_LINES = 2


class EpochEntry(NamedTuple):
    """The first offset that leaders of ``epoch`` wrote."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The answer of OffsetForLeaderEpoch: the epoch found and the first offset behind it."""

    epoch: int
    end_offset: int


class LeaderEpochCache:
    """Epoch entries, ascending in epoch and in start offset."""

    __slots__ = ("_entries", "_unstored_from", "dirty", "latest_epoch")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest_epoch = UNDEFINED_EPOCH
        """The newest epoch, -1 when there is none; an attribute, because every append asks for it."""
        self.dirty = False
        """Set by every change but `begin`; `stored` clears it."""
        self._unstored_from: int | None = None
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.dirty = False

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """The whole history."""
        return tuple(self._entries)

    @property
    def earliest(self) -> EpochEntry | None:
        """The oldest entry."""
        return self._entries[0] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that ``epoch`` begins at ``start_offset``; returns whether anything changed.

        Entries that contradict the new one (a later epoch, or a start at or above it) are dropped.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} cannot start at offset {start_offset}")
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.latest_epoch = epoch
        self.dirty = True
        return True

    def begin(self, epoch: int, start_offset: int) -> None:
        """As `assign`, by a leader that may write nothing: an epoch without a batch leaves no trace on the disk.

        The next one to begin at the same offset takes its place in any case.
        """
        dirty = self.dirty
        if self.assign(epoch, start_offset):
            self.note_unstored(start_offset)
        self.dirty = dirty

    def note_unstored(self, offset: int) -> None:
        """The checkpoint lacks epochs from ``offset`` on, and nothing else."""
        self._unstored_from = offset if self._unstored_from is None else min(self._unstored_from, offset)

    def must_store(self, offset: int) -> bool:
        """Whether the checkpoint lacks something about batches below ``offset``, or contradicts what is known."""
        return self.dirty or (self._unstored_from is not None and self._unstored_from < offset)

    def stored(self) -> None:
        """The checkpoint holds what `to_bytes` gave."""
        self.dirty = False
        self._unstored_from = None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where ``epoch`` ends: the start of the next larger epoch, or the log end for the current one.

        The epoch answered is the largest known one not above ``epoch``; below the oldest entry the epoch asked
        for comes back with that entry's start. An epoch above all is ``(-1, -1)``: the asker knows more than we.
        """
        entries = self._entries
        if epoch == UNDEFINED_EPOCH or not entries or epoch > entries[-1].epoch:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if epoch == entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        slot = bisect_right(entries, epoch, key=_epoch_of)
        found = entries[slot - 1].epoch if slot else epoch
        return EpochEnd(found, entries[slot].start_offset)

    def epoch_for(self, offset: int) -> int | None:
        """The epoch in which ``offset`` was (or will be) written; None below the oldest entry."""
        slot = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[slot - 1].epoch if slot else None

    def truncate_from_end(self, end_offset: int) -> None:
        """The log was cut to ``end_offset``: drop entries that start there or later."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
            self.latest_epoch = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH
            self.dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at ``start_offset``: keep the epoch in force there, starting at ``start_offset``."""
        slot = bisect_right(self._entries, start_offset, key=_start_of)
        if slot == 0 or self._entries[0].start_offset == start_offset:
            return
        self._entries[: slot - 1] = []
        self._entries[0] = EpochEntry(self._entries[0].epoch, start_offset)
        self.dirty = True

    def until(self, end_offset: int) -> tuple[EpochEntry, ...]:
        """The history of the log up to ``end_offset`` exclusive."""
        return tuple(entry for entry in self._entries if entry.start_offset < end_offset)

    def clear(self) -> None:
        """Forget everything."""
        if self._entries:
            self._entries.clear()
            self.latest_epoch = UNDEFINED_EPOCH
            self.dirty = True

    def to_bytes(self) -> bytes:
        """The text of ``leader-epoch-checkpoint``: version 0, the count, one ``epoch start`` a line."""
        lines = ["0", str(len(self._entries)), *(f"{entry.epoch} {entry.start_offset}" for entry in self._entries)]
        return ("\n".join(lines) + "\n").encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> LeaderEpochCache:
        """Parse ``leader-epoch-checkpoint``. Raises `Corrupt` for any other text."""
        try:
            lines = data.decode("ascii").splitlines()
            version, count = int(lines[0]), int(lines[1])
            pairs = [tuple(map(int, line.split(" "))) for line in lines[_HEADER_LINES:]]
            entries = [EpochEntry(epoch, start) for epoch, start in pairs]
        except (ValueError, IndexError) as error:
            raise Corrupt(f"leader-epoch-checkpoint is not readable ({error}); it is rebuilt from the log") from error
        if version != 0 or count != len(entries) or any(entry < (0, 0) or entry.start_offset < 0 for entry in entries):
            raise Corrupt(f"leader-epoch-checkpoint version {version} with {count} entries is not readable")
        return cls(entries)


def _epoch_of(entry: EpochEntry) -> int:
    return entry.epoch


def _start_of(entry: EpochEntry) -> int:
    return entry.start_offset
