"""Cuts manifests into slices of objects, and slices into tasks, for readers of the whole archive. Pure.

A task is a run of slices in the order topic, partition, offset. Small objects are merged into one task, large ones
divided, so that tasks are about equal. A slice carries both an offset window, which trims rows exactly, and a position
window: it reads the chunks that *begin* inside, so that slices of one object meet on chunk borders without the planner
knowing the chunks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.tier.manifests.entry import Entry
from stratalog.tier.objects.chunk_table import CHUNK_BYTES, Chunk, ChunkTable
from stratalog.tier.objects.segment_blobs import ABORTED_BYTES
from stratalog.wire.topic import ZERO_UUID, TopicPartition, Uuid

__all__ = [
    "RANGE_BYTES",
    "WHOLE_BYTES_MAX",
    "Limits",
    "OffsetRange",
    "PartitionArchive",
    "SegmentSlice",
    "chunk_runs",
    "cut_slices",
    "group_tasks",
    "slice_entry",
    "tail_bytes",
    "task_limits",
]

WHOLE_BYTES_MAX: Final = 8 << 20
"""Objects up to this size are read by one GET."""
RANGE_BYTES: Final = 8 << 20
"""Neighbouring chunks are read by one GET up to this size; a larger chunk alone."""
_SLICE_COST_BYTES: Final = 256 * 1024
"""Cost for a task of opening one more object, in bytes it could have read meanwhile."""
_TASK_BYTES_MIN: Final = 32 << 20
"""Least bytes of a task: each costs Spark tens of milliseconds."""
_TASKS_PER_CORE: Final = 2
"""Two of equal size keep the cores busy to the end; a task more costs some 50 ms before its first row."""


class PartitionArchive(Struct, frozen=True):
    """One partition by its manifest: its live entries, ascending, cover ``[log_start, end)`` or less.

    ``shortened_seq`` is that of the manifest: another number than before says that the archive may have gone back, and
    grown again by other records. ``went_back`` says that it did so once, also where a build wrote the manifest that kept no
    such number, as far as the manifest remembers.
    """

    partition: TopicPartition
    log_start_offset: int
    end_offset: int
    entries: Sequence[Entry]
    topic_id: Uuid = ZERO_UUID
    shortened_seq: int = 0
    went_back: bool = False

    @property
    def is_there(self) -> bool:
        """Whether there is an archive: a partition whose manifest is missing, or marked as deleted, has no offset."""
        return bool(self.end_offset or self.shortened_seq or self.went_back)


class OffsetRange(NamedTuple):
    """The offsets ``[start, end)`` of one partition; ``losses`` lists the missing parts."""

    start: int
    end: int
    losses: tuple[str, ...] = ()


class SegmentSlice(NamedTuple):
    """A part of one object: rows with offsets in ``[start_offset, end_offset)`` from the chunks that begin at
    positions ``[start_position, end_position)``. The object holds the offsets ``[base, end)`` and ``record_count``
    records (-1: unknown); from ``tail_position`` on lie its aborted transactions, chunk table and footer.
    """

    topic: str
    partition: int
    key: str
    base: int
    end: int
    size_bytes: int
    tail_position: int
    start_offset: int
    end_offset: int
    start_position: int
    end_position: int
    record_count: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose offsets these are."""
        return TopicPartition(self.topic, self.partition)

    @property
    def offset_count(self) -> int:
        """How many offsets: at least the number of rows."""
        return self.end_offset - self.start_offset

    @property
    def record_bound(self) -> int:
        """No more records than this: a compacted object may hold ten in a billion offsets."""
        return self.offset_count if self.record_count < 0 else min(self.offset_count, self.record_count)

    @property
    def read_bytes(self) -> int:
        """An estimate of the data behind it: offsets are taken to be spread evenly."""
        return (self.end_position - self.start_position) * self.offset_count // (self.end - self.base)


class Limits(NamedTuple):
    """How much a task may read. ``records`` counts offsets, but no more than an object has records; None is no limit."""

    size_bytes: int
    records: int | None


def cut_slices(archive: PartitionArchive, offsets: OffsetRange) -> tuple[list[SegmentSlice], list[str]]:
    """One slice per object that holds offsets of the range, and the holes found between them."""
    slices = []
    losses = []
    at = offsets.start
    # A plan may ask for 10,000 ranges of 100,000 objects.
    first = bisect_right(archive.entries, offsets.start, key=attrgetter("end"))
    behind = bisect_left(archive.entries, offsets.end, lo=first, key=attrgetter("base"))
    for entry in archive.entries[first:behind] if offsets.start < offsets.end else ():
        if entry.base > at:
            losses.append(_hole(archive, at, entry.base))
        at = entry.end
        slices.append(slice_entry(archive.partition, entry, offsets))
    if at < offsets.end:
        losses.append(_hole(archive, at, offsets.end))
    return slices, losses


def _hole(archive: PartitionArchive, start: int, end: int) -> str:
    return f"{archive.partition}: the manifest has no object for the offsets {start} to {end - 1}"


def slice_entry(partition: TopicPartition, entry: Entry, offsets: OffsetRange) -> SegmentSlice:
    """The part of the object of ``entry`` that lies in ``offsets``."""
    return SegmentSlice(  # by position: a plan may have 100,000 of them
        partition.topic,
        partition.partition,
        entry.key,
        entry.base,
        entry.end,
        entry.size_bytes,
        entry.chunks_position - entry.aborted_count * ABORTED_BYTES,
        max(offsets.start, entry.base),
        min(offsets.end, entry.end),
        0,
        entry.data_bytes,
        entry.record_count,
    )


def task_limits(
    slices: Iterable[SegmentSlice],
    core_count: int,
    *,
    task_bytes_max: int,
    task_records_max: int | None = None,
    tasks_min: int | None = None,
) -> Limits:
    """How large a task may be: ``task_bytes_max``, less where that would leave cores idle, and the records asked for.

    ``tasks_min`` is met by a limit of records, as Spark's Kafka source divides by offsets.
    """
    total_bytes = total_records = 0
    for each in slices:
        total_bytes += each.read_bytes + _SLICE_COST_BYTES
        total_records += each.record_bound
    share = -(-total_bytes // max(1, core_count * _TASKS_PER_CORE))
    size_bytes = min(task_bytes_max, max(_TASK_BYTES_MIN, share))
    records = task_records_max
    if tasks_min is not None and total_records:
        per_task = max(1, total_records // tasks_min)
        records = per_task if records is None else min(records, per_task)
    return Limits(size_bytes, records)


def group_tasks(slices: Sequence[SegmentSlice], limits: Limits) -> list[tuple[SegmentSlice, ...]]:
    """The slices in order, merged and divided into tasks within ``limits``.

    By offsets where records are limited; else by positions, which costs no chunk being read twice, and evenly.
    """
    if limits.records is None:
        return _even_tasks(slices, max(limits.size_bytes, CHUNK_BYTES))
    tasks: list[tuple[SegmentSlice, ...]] = []
    task: list[SegmentSlice] = []
    task_bytes = task_records = 0
    for piece in _divide_by_offset(slices, limits.size_bytes, limits.records):
        size_bytes = piece.read_bytes + _SLICE_COST_BYTES
        full = task_bytes + size_bytes > limits.size_bytes or task_records + piece.record_bound > limits.records
        if task and full:
            tasks.append(tuple(task))
            task, task_bytes, task_records = [], 0, 0
        task.append(piece)
        task_bytes += size_bytes
        task_records += piece.record_bound
    if task:
        tasks.append(tuple(task))
    return tasks


def _divide_by_offset(slices: Iterable[SegmentSlice], size_bytes: int, records: int) -> Iterator[SegmentSlice]:
    for each in slices:
        count = max(-(-each.record_bound // records), -(-each.read_bytes // size_bytes))
        for start, end in _spans(each.start_offset, each.end_offset, count):
            yield each._replace(start_offset=start, end_offset=end)


def _even_tasks(slices: Sequence[SegmentSlice], size_bytes: int) -> list[tuple[SegmentSlice, ...]]:
    """As few tasks as ``size_bytes`` allows, about equally large, so that all end together."""
    coming = deque(slices)
    left_bytes = sum(each.read_bytes + _SLICE_COST_BYTES for each in slices) - _SLICE_COST_BYTES
    task_count = -(-left_bytes // size_bytes)
    tasks: list[tuple[SegmentSlice, ...]] = []
    while coming:
        share = -(-left_bytes // max(1, task_count - len(tasks)))
        task, used_bytes = _next_task(coming, max(CHUNK_BYTES, min(size_bytes, share)))
        tasks.append(task)
        left_bytes -= used_bytes
    return tasks


def _next_task(coming: deque[SegmentSlice], size_bytes: int) -> tuple[tuple[SegmentSlice, ...], int]:
    """Slices taken from the left of ``coming``, the last one perhaps in part, and what they cost in bytes.

    Never finer than chunks: a window in which no chunk begins would be read for no row.
    """
    task: list[SegmentSlice] = []
    used_bytes = 0
    while coming:
        piece = coming.popleft()
        cost = _SLICE_COST_BYTES if task else 0
        room = size_bytes - used_bytes - cost
        if piece.read_bytes > room + CHUNK_BYTES:
            if room < CHUNK_BYTES:
                coming.appendleft(piece)
                break
            cut = piece.start_position + (piece.end_position - piece.start_position) * room // piece.read_bytes
            coming.appendleft(piece._replace(start_position=cut))
            task.append(piece._replace(end_position=cut))
            used_bytes += cost + room
            break
        task.append(piece)
        used_bytes += cost + piece.read_bytes
    return tuple(task), used_bytes


def _spans(start: int, end: int, count: int) -> Iterator[tuple[int, int]]:
    """``[start, end)`` in at most ``count`` nearly equal spans, none of them empty."""
    count = max(1, min(count, end - start))
    borders = [start + (end - start) * index // count for index in range(count + 1)]
    return pairwise(borders)


def chunk_runs(table: ChunkTable, piece: SegmentSlice, range_bytes: int = RANGE_BYTES) -> Iterator[list[Chunk]]:
    """The chunks that may hold rows of ``piece``, neighbours together as long as they fit into one GET."""
    run: list[Chunk] = []
    for index, chunk in enumerate(table):
        behind = table[index + 1].first_offset if index + 1 < len(table) else piece.end
        wanted = (
            piece.start_position <= chunk.position < piece.end_position
            and chunk.first_offset < piece.end_offset
            and behind > piece.start_offset
        )
        if run and (not wanted or chunk.position + chunk.length - run[0].position > range_bytes):
            yield run
            run = []
        if wanted:
            run.append(chunk)
    if run:
        yield run


def tail_bytes(piece: SegmentSlice, whole_bytes_max: int = WHOLE_BYTES_MAX) -> int:
    """Bytes of the object's end that the first GET asks for: all of a small object."""
    return piece.size_bytes if piece.size_bytes <= whole_bytes_max else piece.size_bytes - piece.tail_position
