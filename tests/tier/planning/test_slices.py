"""From manifest entries to slices, tasks and chunk runs, without a store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.tier.manifests.entry import Entry
from stratalog.tier.objects.chunk_table import CHUNK_BYTES, Chunk, ChunkTable
from stratalog.tier.planning.slices import (
    Limits,
    OffsetRange,
    PartitionArchive,
    SegmentSlice,
    chunk_runs,
    cut_slices,
    group_tasks,
    tail_bytes,
    task_limits,
)
from stratalog.wire.topic import TopicPartition

ORDERS = TopicPartition("orders", 0)
MIB = 1 << 20


def entry(base: int, end: int, size_bytes: int = 8 * MIB, first_ms: int | None = None) -> Entry:
    """An object whose record at offset o has time o, in seconds."""
    return Entry(
        uuid=base.to_bytes(16, "big"), base=base, end=end, epoch=0, key=f"seg/{base}", size_bytes=size_bytes + 1000,
        data_bytes=size_bytes, crc32c=0, data_crc32c=0, chunks_position=size_bytes, chunks_bytes=0,
        min_timestamp_ms=(base if first_ms is None else first_ms) * 1000, max_timestamp_ms=(end - 1) * 1000,
        max_timestamp_offset=end - 1, batch_count=1, record_count=end - base,
    )  # fmt: skip


def archive(*entries: Entry, log_start: int = 0) -> PartitionArchive:
    return PartitionArchive(ORDERS, log_start, entries[-1].end if entries else log_start, entries)


def cut(view: PartitionArchive, start: int, end: int) -> tuple[list[tuple[int, int]], list[str]]:
    slices, losses = cut_slices(view, OffsetRange(start, end))
    return [(each.start_offset, each.end_offset) for each in slices], losses


LONG = archive(*(entry(base, base + 100) for base in range(0, 500, 100)))


def test_slices_cover_the_range_object_by_object() -> None:
    """Only the first and the last are trimmed."""
    assert cut(LONG, 150, 310) == ([(150, 200), (200, 300), (300, 310)], [])
    assert cut(LONG, 150, 150) == ([], [])


def test_a_small_range_does_not_look_at_all_objects() -> None:
    """A backfill whose archive went back cuts a range for each converted span."""

    class Counted(tuple[Entry, ...]):
        __slots__ = ()
        looks = 0

        def __getitem__(self, index: Any) -> Any:
            Counted.looks += 1
            return super().__getitem__(index)

        def __iter__(self) -> Iterator[Entry]:
            raise AssertionError("all objects are looked at")

    view = replace(LONG, entries=Counted(entry(base, base + 10) for base in range(0, 10_240, 10)))
    assert cut(view, 5005, 5015) == ([(5005, 5010), (5010, 5015)], [])
    assert Counted.looks < 30


@pytest.mark.parametrize(
    ("entries", "holes"),
    [
        ([entry(0, 100), entry(150, 200)], ["100 to 149"]),
        ([entry(50, 200)], ["0 to 49"]),
        ([entry(0, 100), entry(120, 130), entry(140, 200)], ["100 to 119", "130 to 139"]),
        ([], ["0 to 199"]),
    ],
)
def test_holes_are_losses(entries: list[Entry], holes: list[str]) -> None:
    """Offsets that no object holds are reported with their borders."""
    view = PartitionArchive(ORDERS, 0, 200, entries)
    _, losses = cut(view, 0, 200)
    assert [loss.rpartition("offsets ")[2] for loss in losses] == holes
    assert all(loss.startswith("orders-0: the manifest has no object") for loss in losses)


def test_holes_outside_the_range_do_not_matter() -> None:
    """Only what was asked for can be lost."""
    view = PartitionArchive(ORDERS, 0, 300, [entry(0, 100), entry(200, 300)])
    assert cut(view, 200, 300) == ([(200, 300)], [])


def test_a_partition_that_was_never_uploaded_to_is_empty() -> None:
    """A claimed manifest without entries has nothing to lose."""
    view = archive(log_start=5)
    assert cut(view, 5, 5) == ([], [])


def slices_of(*entries: Entry) -> list[SegmentSlice]:
    return cut_slices(archive(*entries), OffsetRange(entries[0].base, entries[-1].end))[0]


def test_ten_thousand_small_objects_become_few_tasks() -> None:
    """Small objects are merged: a task each would cost minutes of worker latency."""
    slices = slices_of(*(entry(base * 10, base * 10 + 10, MIB) for base in range(10_000)))
    assert len(group_tasks(slices, task_limits(slices, 2, task_bytes_max=256 * MIB))) <= 80


def test_a_large_object_is_divided_by_position() -> None:
    """Windows of one object meet, and cover it."""
    tasks = group_tasks(slices_of(entry(0, 1000, 1024 * MIB)), Limits(256 * MIB, None))
    windows = [(piece.start_position, piece.end_position) for task in tasks for piece in task]
    assert len(tasks) == 4
    assert windows == [(i * 256 * MIB, (i + 1) * 256 * MIB) for i in range(4)]
    assert all(piece.offset_count == 1000 for task in tasks for piece in task)


def test_cores_are_not_left_idle() -> None:
    """An archive smaller than one task's limit still gives every core work, in pieces worth a task."""
    slices = slices_of(*(entry(base * 10, base * 10 + 10, 30 * MIB) for base in range(16)))
    assert len(group_tasks(slices, task_limits(slices, 2, task_bytes_max=256 * MIB))) == 4
    alone = slices_of(entry(0, 10, 60 * MIB))
    assert len(group_tasks(alone, task_limits(alone, 64, task_bytes_max=256 * MIB))) == 2


def test_tasks_are_about_equal() -> None:
    """Eleven equal objects for two cores: no task waits for an odd one, since objects are divided between tasks."""
    slices = slices_of(*(entry(base * 10, base * 10 + 10, 33 * MIB) for base in range(11)))
    tasks = group_tasks(slices, task_limits(slices, 2, task_bytes_max=256 * MIB))
    sizes = [sum(piece.read_bytes for piece in task) / MIB for task in tasks]
    assert len(tasks) == 4
    assert max(sizes) - min(sizes) < 3


@given(st.lists(st.integers(1, 600 * MIB), min_size=1, max_size=30), st.integers(1, 300 * MIB))
def test_tasks_keep_their_limit(sizes: list[int], size_bytes: int) -> None:
    """A task reads at most one chunk more than its limit, which cannot be finer than a chunk."""
    slices = slices_of(*(entry(base, base + 1, data_bytes) for base, data_bytes in enumerate(sizes)))
    tasks = group_tasks(slices, Limits(size_bytes, None))
    read = [sum(piece.read_bytes for piece in task) for task in tasks]
    assert max(read) <= max(size_bytes, CHUNK_BYTES) + CHUNK_BYTES
    assert sum(read) == sum(sizes)
    assert all(piece.end_position > piece.start_position for task in tasks for piece in task)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"tasks_min": 7}, 7),
        ({"task_records_max": 30}, 34),
        ({"tasks_min": 3, "task_records_max": 100}, 10),
    ],
)
def test_partitions_are_divided_by_records_where_asked(options: dict[str, int], count: int) -> None:
    """Both bounds hold, and no offset is lost or doubled."""
    slices = slices_of(entry(0, 1000, MIB))
    limits = task_limits(slices, 1, task_bytes_max=256 * MIB, **options)
    tasks = group_tasks(slices, limits)
    assert len(tasks) >= count
    assert all(sum(piece.offset_count for piece in task) <= (limits.records or 0) for task in tasks)
    assert covered(tasks) == list(range(1000))


def covered(tasks: list[tuple[SegmentSlice, ...]]) -> list[int]:
    return [offset for task in tasks for piece in task for offset in range(piece.start_offset, piece.end_offset)]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 600 * MIB)), min_size=1, max_size=12),
    st.integers(1, 300 * MIB),
    st.none() | st.integers(1, 60),
)
def test_tasks_cover_every_slice_once_and_in_order(
    sizes: list[tuple[int, int]], size_bytes: int, records: int | None
) -> None:
    """Merging and dividing under random limits neither lose, double nor reorder anything."""
    entries = []
    base = 0
    for count, data_bytes in sizes:
        entries.append(entry(base, base + count, data_bytes))
        base += count
    tasks = group_tasks(slices_of(*entries), Limits(size_bytes, records))
    pieces = [piece for task in tasks for piece in task]
    if records is not None:
        assert covered(tasks) == list(range(base))
        assert all(sum(piece.offset_count for piece in task) <= records or len(task) == 1 for task in tasks)
        return
    at: dict[str, Any] = {}
    for piece in pieces:
        assert piece.start_position == at.get(piece.key, 0)
        at[piece.key] = piece.end_position
    assert at == {each.key: each.data_bytes for each in entries}
    assert [piece.key for piece in pieces] == sorted((piece.key for piece in pieces), key=lambda key: int(key[4:]))


def test_a_slice_knows_where_the_tail_begins() -> None:
    """Aborted transactions lie before the chunk table and belong to the tail."""
    (piece,) = slices_of(replace(entry(0, 10), aborted_count=2))
    assert piece.tail_position == 8 * MIB - 2 * 34


TABLE = ChunkTable([Chunk(number * 10, number * 3 * MIB, 3 * MIB, 0, 0) for number in range(8)])
WHOLE = SegmentSlice("orders", 0, "k", 0, 80, 24 * MIB + 300, 24 * MIB, 0, 80, 0, 24 * MIB)


def runs(piece: SegmentSlice, range_bytes: int = 8 * MIB) -> list[list[int]]:
    return [[chunk.first_offset // 10 for chunk in run] for run in chunk_runs(TABLE, piece, range_bytes)]


def test_neighbouring_chunks_come_by_one_get() -> None:
    """As many as fit into it; a larger chunk alone."""
    assert runs(WHOLE) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert runs(WHOLE, 1) == [[number] for number in range(8)]


def test_only_chunks_of_the_slice_are_read() -> None:
    """By both windows: those that begin inside, and that hold offsets of it."""
    assert runs(WHOLE._replace(start_offset=25, end_offset=41)) == [[2, 3], [4]]
    assert runs(WHOLE._replace(start_position=3 * MIB + 1, end_position=6 * MIB + 1)) == [[2]]


def test_a_small_object_comes_whole_and_of_a_large_one_the_tail() -> None:
    """By one GET either way."""
    assert tail_bytes(WHOLE) == 300
    assert tail_bytes(WHOLE, 25 * MIB) == WHOLE.size_bytes


@pytest.mark.parametrize("core_count", [2, 16])
def test_many_small_objects_are_few_tasks(core_count: int) -> None:
    """10,000 of 1 MiB: a task costs more than an object."""
    view = archive(*(entry(base, base + 10, MIB) for base in range(0, 100_000, 10)))
    slices, _ = cut_slices(view, OffsetRange(0, 100_000))
    tasks = group_tasks(slices, task_limits(slices, core_count, task_bytes_max=256 * MIB))
    assert [each for task in tasks for each in task] == slices
    assert len(tasks) <= 100
    assert max(map(len, tasks)) <= 256


@pytest.mark.parametrize("limit", [{"tasks_min": 8}, {"task_records_max": 5}])
def test_a_hole_of_a_billion_offsets_makes_no_tasks(limit: dict[str, int]) -> None:
    """The records that cleaning left of an object count, not the offsets that it spans."""
    left = replace(entry(0, 1_000_000_000, MIB), record_count=40, compacted=True)
    view = archive(left, entry(1_000_000_000, 1_000_000_020, MIB))
    slices, _ = cut_slices(view, OffsetRange(0, 1_000_000_020))
    tasks = group_tasks(slices, task_limits(slices, 2, task_bytes_max=256 * MIB, **limit))
    assert 8 <= len(tasks) <= 16
    windows = [(piece.start_offset, piece.end_offset) for task in tasks for piece in task]
    assert windows[0][0] == 0
    assert windows[-1][1] == 1_000_000_020
    assert all(one[1] == other[0] for one, other in pairwise(windows))
