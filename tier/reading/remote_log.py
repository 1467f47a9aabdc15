"""The archived part of one partition's log, as the broker knows it: look-ups by offset and time, and what to fetch next.

Pure. Holds packed columns (about 70 bytes an object) and the chunk tables of the objects read lately.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.manifest import NOBODY, Claimant, Totals
from stratalog.tier.manifests.running_maxima import RunningMaxima
from stratalog.tier.manifests.view import ManifestView, PackedEntries, RemoteSegment
from stratalog.tier.messages.reports import TrashEmptied
from stratalog.tier.objects.chunk_table import Chunk, ChunkTable
from stratalog.tier.planning.remote_retention import RetainedRange
from stratalog.tier.stores.store import Version
from stratalog.wire.topic import Uuid

__all__ = ["GROUP_COUNT", "ChunkId", "ChunkRef", "FetchPlan", "RemoteLog", "group_neighbours"]

_TABLES_KEPT: Final = 64
GROUP_COUNT: Final = 3
"""Chunks of one GET: 12 MiB. A segment of 64 MiB has 17 chunks, so with its table it needs 7 GETs."""


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


def group_neighbours(refs: Sequence[ChunkRef], count_max: int = GROUP_COUNT) -> list[tuple[ChunkRef, ...]]:
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
    """The manifest of ``partition`` as it was last read.

    Its entries are there only while ``loaded``: they can be had again, and a broker has many partitions.
    """

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
        self.oldest_timestamp_ms = -1
        self.loaded = False
        self.data_bytes = 0
        self.deleted = False
        self.trash_count = 0
        self.trash_bytes = 0
        self.job_count = 0
        self._entries = PackedEntries()
        self._latest = RunningMaxima()
        self._tables: OrderedDict[Uuid, ChunkTable] = OrderedDict()
        self._keys: dict[Uuid, str] = {}  # of those objects: to make one up costs more than all else of a plan
        self._tables_kept = tables_kept

    def __len__(self) -> int:
        return len(self._entries)

    def merge(self, view: ManifestView) -> bool:
        """Take a newer view in; an older one changes nothing.

        False if the view begins behind what is known here, or if entries were rewritten since: then the whole manifest
        must be read (``known_end=0``); until then everything stays as it was.
        """
        if view.seq < self.seq:
            return True
        if not self.loaded and view.entries_from:
            self._take(view)
            return True
        known = bisect_right(self._entries.ends, view.entries_from)
        if view.entries_from:
            reaches = self._entries.ends[known - 1] if known else view.entries_from
            if reaches != view.entries_from or (not known and self.remote_end != view.entries_from):
                return False
            if view.rewritten_seq > self.seq:
                return False
        else:
            known = 0
        self._truncate(known)
        self._entries.extend(view.entries)
        self._latest.extend(view.entries.max_timestamps)
        self.data_bytes += sum(view.entries.data_sizes)
        self._drop_front(bisect_right(self._entries.ends, view.remote_start))
        self.loaded = True
        self._take(view)
        return True

    def _take(self, view: ManifestView) -> None:
        self.version, self.seq, self.claimant = view.version, view.seq, view.claimant
        self.log_start_offset = view.log_start_offset
        self.remote_start, self.remote_end = view.remote_start, view.remote_end
        self.leader_epochs, self.totals = view.leader_epochs, view.totals
        self.archive_clean_offset = view.archive_clean_offset
        self.oldest_timestamp_ms = view.oldest_timestamp_ms
        self.deleted = view.deleted
        self.trash_count, self.trash_bytes, self.job_count = view.trash_count, view.trash_bytes, view.job_count

    def note_trash(self, report: TrashEmptied) -> None:
        """Take in what an emptying of the trash has left there; that of an older manifest changes nothing."""
        if report.seq >= self.seq:
            self.trash_count, self.trash_bytes, self.job_count = report.left_count, report.left_bytes, report.job_count

    def _truncate(self, count: int) -> None:
        if count == len(self):
            return
        self.data_bytes -= sum(self._entries.data_sizes[count:])
        self._entries.truncate(count)
        self._latest.truncate(count)

    def _drop_front(self, count: int) -> None:
        if count:
            self.data_bytes -= sum(self._entries.data_sizes[:count])
            self._entries.drop_front(count)
            self._latest.drop_front(count)

    def unload(self) -> None:
        """Forget the entries and the chunk tables; all else stays known."""
        self._entries, self._latest, self.data_bytes, self.loaded = PackedEntries(), RunningMaxima(), 0, False
        self._tables.clear()
        self._keys.clear()

    def retained(self, log_start_offset: int) -> tuple[Iterator[RetainedRange], int]:
        """The ranges that end behind ``log_start_offset``, one after the other, and the bytes of all of them."""
        entries = self._entries
        first = bisect_right(entries.ends, log_start_offset)
        ranges = (
            RetainedRange(entries.bases[at], entries.ends[at], entries.data_sizes[at], entries.max_timestamps[at])
            for at in range(first, len(self))
        )
        return ranges, self.data_bytes - sum(entries.data_sizes[:first])

    def segment(self, index: int) -> RemoteSegment:
        """The entry at ``index``, oldest first."""
        return self._entries.unpack(self.partition, index)

    def find(self, offset: int) -> int | None:
        """The index of the entry that holds ``offset``; `None` outside the archive."""
        index = bisect_right(self._entries.bases, offset) - 1
        if index < 0 or offset >= self._entries.ends[index]:
            return None
        return index

    def time_candidate(self, timestamp_ms: int, start_offset: int = 0) -> RemoteSegment | None:
        """The first entry that may hold a record from ``start_offset`` on with at least ``timestamp_ms``.

        If its look-up (`FindTimestamp`) finds nothing, the next candidate begins where it ends.
        """
        index = self._latest.find(timestamp_ms, bisect_right(self._entries.ends, start_offset))
        return None if index is None else self.segment(index)

    def latest_timestamp(self, start_offset: int = 0) -> RemoteSegment | None:
        """The first entry with the largest timestamp of those that end behind ``start_offset``."""
        latest = self._latest.largest(bisect_right(self._entries.ends, start_offset))
        return None if latest is None else self.time_candidate(latest, start_offset)

    def latest_within(self, start_offset: int, end_offset: int) -> list[RemoteSegment]:
        """Some entries, in their order; one has the largest timestamp between two offsets.

        They are those that reach across either, and the first with the largest among the others.
        """
        entries = self._entries
        first, behind = bisect_right(entries.ends, start_offset), bisect_left(entries.bases, end_offset)
        if first >= behind:
            return []
        whole = range(first + (entries.bases[first] < start_offset), behind - (entries.ends[behind - 1] > end_offset))
        found = {first, behind - 1} - set(whole[:1]) - set(whole[-1:])
        if whole:
            found.add(max(whole, key=entries.max_timestamps.__getitem__))
        return [self.segment(at) for at in sorted(found)]

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
            self._keys.pop(self._tables.popitem(last=False)[0], None)

    def plan_fetch(self, offset: int, size_bytes: int, *, whole_groups: bool = False) -> FetchPlan:
        """The chunks from the one that holds ``offset`` on, until they hold at least ``size_bytes``.

        Crosses from one object into the next; always at least one chunk when its table is known. The remote end and
        a missing chunk table end the walk. ``whole_groups`` goes on to the end of the last chunk's group, see
        `group_neighbours`: a reader that reads on needs it whole anyway, and gets it by one GET.
        """
        refs: list[ChunkRef] = []
        planned_bytes = 0
        index = self.find(offset)
        while index is not None and index < len(self) and (planned_bytes < size_bytes or not refs):
            uuid = self._entries.uuid(index)
            table = self._tables.get(uuid)
            if table is None:
                return FetchPlan(tuple(refs), self.segment(index))
            self._tables.move_to_end(uuid)
            key = self._keys.get(uuid) or self._keys.setdefault(uuid, self.segment(index).key)
            end_offset = self._entries.ends[index]
            start = table.find_offset(offset) if not refs else 0
            for number in range(start, len(table)):
                chunk = table[number]
                next_offset = table.first_offset(number + 1) if number + 1 < len(table) else end_offset
                refs.append(ChunkRef(ChunkId(uuid, number), key, chunk, next_offset))
                planned_bytes += chunk.length
                if planned_bytes >= size_bytes and not (whole_groups and (number + 1) % GROUP_COUNT):
                    break
            index += 1
        return FetchPlan(tuple(refs), None)
