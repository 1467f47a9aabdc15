"""The archived part of one partition's log, as the broker knows it: look-ups by offset and time, and what to fetch next.

Pure. Holds packed columns (about 70 bytes an object) and the chunk tables of the objects read lately.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from stratalog.tier.chunk_table import Chunk, ChunkTable
from stratalog.tier.entry import LeaderEpoch
from stratalog.tier.keys import PartitionId
from stratalog.tier.manifest import NOBODY, Claimant, Totals
from stratalog.tier.manifest_view import ManifestView, PackedEntries, RemoteSegment
from stratalog.tier.store import Version
from stratalog.wire.topic import Uuid

__all__ = ["ChunkId", "ChunkRef", "FetchPlan", "RemoteLog", "group_neighbours"]

_TABLES_KEPT: Final = 64
_NEIGHBOURS: Final = 2


class ChunkId(NamedTuple):
    """One chunk of one object, for ever: objects are never overwritten."""

    uuid: Uuid
    number: int


class ChunkRef(NamedTuple):
    """A chunk and where it is. ``end_offset`` is the first offset of what follows it."""

    id: ChunkId
    key: str
    chunk: Chunk
    end_offset: int


class FetchPlan(NamedTuple):
    """Chunks to have, in reading order; ``missing_table`` is the object whose chunk table must be read to go on."""

    chunks: tuple[ChunkRef, ...]
    missing_table: RemoteSegment | None


def group_neighbours(refs: Sequence[ChunkRef], count_max: int = _NEIGHBOURS) -> list[tuple[ChunkRef, ...]]:
    """Cut ``refs`` into runs of neighbouring chunks of one object: one bounded GET each.

    Runs start at multiples of ``count_max``, so that readers who come by in different steps ask for the same ones.
    """
    groups: list[list[ChunkRef]] = []
    for ref in refs:
        last = groups[-1] if groups else None
        if last and ref.id.number % count_max and ref.id == ChunkId(last[-1].id.uuid, last[-1].id.number + 1):
            last.append(ref)
        else:
            groups.append([ref])
    return [tuple(group) for group in groups]


class RemoteLog:
    """What the manifest of ``partition`` said when it was last read."""

    def __init__(self, partition: PartitionId, *, tables_kept: int = _TABLES_KEPT) -> None:
        self.partition = partition
        self.version: Version = ""
        self.seq = -1
        self.claimant: Claimant = NOBODY
        self.log_start_offset = 0
        self.remote_start = 0
        self.remote_end = 0
        self.leader_epochs: tuple[LeaderEpoch, ...] = ()
        self.totals = Totals()
        self.archive_clean_offset = 0
        self._entries = PackedEntries()
        self._tables: OrderedDict[Uuid, ChunkTable] = OrderedDict()
        self._tables_kept = tables_kept

    def __len__(self) -> int:
        return len(self._entries)

    def merge(self, view: ManifestView) -> bool:
        """Take a newer view in; an older one changes nothing.

        False if the view begins behind what is known here: then the whole manifest must be read (``known_end=0``).
        """
        if view.seq < self.seq:
            return True
        known = bisect_right(self._entries.ends, view.entries_from)
        reaches = self._entries.ends[known - 1] if known else view.entries_from
        if view.entries_from and (reaches != view.entries_from or (not known and self.remote_end != view.entries_from)):
            return False
        self._entries.truncate(known if view.entries_from else 0)
        self._entries.extend(view.entries)
        self._entries.drop_front(bisect_right(self._entries.ends, view.remote_start))
        self.version, self.seq, self.claimant = view.version, view.seq, view.claimant
        self.log_start_offset = view.log_start_offset
        self.remote_start, self.remote_end = view.remote_start, view.remote_end
        self.leader_epochs, self.totals = view.leader_epochs, view.totals
        self.archive_clean_offset = view.archive_clean_offset
        return True

    def segment(self, index: int) -> RemoteSegment:
        """The entry at ``index``, oldest first."""
        return self._entries.unpack(self.partition, index)

    def find(self, offset: int) -> int | None:
        """The index of the entry that holds ``offset``; `None` outside the archive."""
        index = bisect_right(self._entries.bases, offset) - 1
        if index < 0 or offset >= self._entries.ends[index]:
            return None
        return index

    def time_candidates(self, timestamp_ms: int, start_offset: int = 0) -> Iterator[RemoteSegment]:
        """Entries that may hold the first record from ``start_offset`` on with at least ``timestamp_ms``, in order.

        The first one whose look-up (`FindTimestamp`) finds a record is the answer.
        """
        for index, latest in enumerate(self._entries.max_timestamps):
            if latest >= timestamp_ms and self._entries.ends[index] > start_offset:
                yield self.segment(index)

    def latest_timestamp(self) -> RemoteSegment | None:
        """The first entry that holds the largest timestamp of the archive."""
        latest = self._entries.max_timestamps
        return self.segment(latest.index(max(latest))) if latest else None

    def aborted_candidates(self, start_offset: int, end_offset: int) -> list[RemoteSegment]:
        """Entries of ``[start_offset, end_offset)`` that aborted transactions overlap."""
        first = self.find(start_offset) if start_offset > self.remote_start else 0
        found = []
        for index in range(first if first is not None else len(self), len(self)):
            if self._entries.bases[index] >= end_offset:
                break
            if self._entries.aborted_counts[index]:
                found.append(self.segment(index))
        return found

    def add_table(self, uuid: Uuid, rows: bytes) -> None:
        """Remember an object's chunk table. Raises `Corrupt` if it is none."""
        self._tables[uuid] = ChunkTable.from_bytes(rows)
        self._tables.move_to_end(uuid)
        while len(self._tables) > self._tables_kept:
            self._tables.popitem(last=False)

    def plan_fetch(self, offset: int, size_bytes: int) -> FetchPlan:
        """The chunks from the one that holds ``offset`` on, until they hold at least ``size_bytes``.

        Crosses from one object into the next; always at least one chunk when its table is known. The remote end and
        a missing chunk table end the walk.
        """
        refs: list[ChunkRef] = []
        planned_bytes = 0
        index = self.find(offset)
        while index is not None and index < len(self) and (planned_bytes < size_bytes or not refs):
            segment = self.segment(index)
            table = self._tables.get(segment.uuid)
            if table is None:
                return FetchPlan(tuple(refs), segment)
            self._tables.move_to_end(segment.uuid)
            start = table.find_offset(offset) if not refs else 0
            for number in range(start, len(table)):
                refs.append(_ref(segment, table, number))
                planned_bytes += table[number].length
                if planned_bytes >= size_bytes:
                    break
            index += 1
        return FetchPlan(tuple(refs), None)

    def whole_groups(self, refs: Sequence[ChunkRef]) -> Sequence[ChunkRef]:
        """``refs`` without a last group whose rest is still to come: the next plan has it whole, in one GET."""
        first = len(refs) - 1 - refs[-1].id.number % _NEIGHBOURS if refs else 0
        if first <= 0 or refs[-1].id.number % _NEIGHBOURS == _NEIGHBOURS - 1:
            return refs
        index = self.find(refs[-1].chunk.first_offset)
        ends = index is None or self._entries.ends[index] == refs[-1].end_offset
        return refs if ends else refs[:first]


def _ref(segment: RemoteSegment, table: ChunkTable, number: int) -> ChunkRef:
    end_offset = table[number + 1].first_offset if number + 1 < len(table) else segment.end
    return ChunkRef(ChunkId(segment.uuid, number), segment.key, table[number], end_offset)
