from __future__ import annotations

from array import array
from pathlib import Path
from types import SimpleNamespace

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.tier.messages.commands import (
    ChunkFill,
    FillChunks,
    FindLargestTimestamp,
    FindTimestamp,
    ReadAborted,
    ReadBoundedView,
    ReadFooter,
    ReadRestartState,
    TimestampFound,
)
from stratalog.tier.objects.chunk_table import ChunkTable
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.objects.segment_reader import CorruptObject, read_object_footer
from stratalog.tier.reading.bounded_view import read_bounded_view
from stratalog.tier.reading.fill import (
    fill_chunks,
    find_largest_timestamp,
    find_timestamp,
    read_aborted,
    read_footer_of,
    read_restart_state,
)
from stratalog.tier.reading.time_lookup import offset_at
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.stores.wrappers import CountingStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch, iter_headers, iter_records
from stratalog.wire.compression import Codec


@pytest.fixture
def archived(memory_store, log_bytes):
    """One object of many small chunks: store, key, chunk table, log bytes."""
    data = log_bytes.segment(0, 40)
    manifest = archive_log(memory_store, log_bytes.partition, [data], now_ms=1, chunk_bytes=2000)
    key = manifest.entries[0].key
    return memory_store, key, read_object_footer(memory_store, key).chunks, data


def filling(log_bytes, key, chunks, directory, **options):
    """A command that fills ``chunks`` into files of ``directory``."""
    fills = tuple(ChunkFill(chunk, str(directory / f"{chunk.first_offset}")) for chunk in chunks)
    return FillChunks(log_bytes.partition, key, fills, **options)


def test_neighbours_are_filled_by_one_request(archived, log_bytes, tmp_path):
    """Each into its own file, exactly the bytes of the log, and no temporary file is left."""
    store, key, chunks, data = archived
    counting = CountingStore(store)
    report = fill_chunks(counting, filling(log_bytes, key, [chunks[1], chunks[2]], tmp_path, sync=True))
    assert [request.operation for request in counting.requests] == ["get_range"]
    for chunk, filled in zip((chunks[1], chunks[2]), report.chunks, strict=True):
        content = (tmp_path / str(chunk.first_offset)).read_bytes()
        assert content == data[chunk.position : chunk.position + chunk.length]
        assert filled.length == chunk.length
    assert report.chunks[0].next_offset == chunks[2].first_offset
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("interval_bytes", [0, 700, 10**6])
def test_the_sparse_index_points_at_batches(archived, log_bytes, tmp_path, interval_bytes):
    """The first batch always, then one as soon as the interval has passed; both columns little-endian."""
    store, key, chunks, _ = archived
    command = filling(log_bytes, key, [chunks[1]], tmp_path, index_interval_bytes=interval_bytes)
    filled = fill_chunks(store, command).chunks[0]
    offsets, positions = array("q", filled.offsets), array("i", filled.positions)
    borders = {p: h.base_offset for p, h in iter_headers((tmp_path / str(chunks[1].first_offset)).read_bytes())}
    assert positions[0] == 0
    assert [borders[position] for position in positions] == list(offsets)
    assert len(positions) == {0: len(borders), 10**6: 1}.get(interval_bytes, len(positions))


def test_a_damaged_chunk_is_refused_and_nothing_is_written(archived, log_bytes, tmp_path):
    """Its healthy neighbour is not written either, and the report says the object, the position and the offset."""
    store, key, chunks, _ = archived
    damaged = bytearray(store.get(key)[0])
    damaged[chunks[2].position + 100] ^= 1
    store.put(key, bytes(damaged))
    with pytest.raises(CorruptObject) as caught:
        fill_chunks(store, filling(log_bytes, key, [chunks[1], chunks[2]], tmp_path))
    assert (caught.value.position, caught.value.offset) == (chunks[2].position, chunks[2].first_offset)
    assert list(tmp_path.iterdir()) == []


def test_an_object_on_the_same_file_system_is_served_as_it_is(log_bytes, tmp_path):
    """It is read and checked like any other, and nothing is written; damage is found."""
    store = CountingStore(LocalStore(str(tmp_path / "bucket"), sync=False))
    data = log_bytes.segment(0, 40)
    key = archive_log(store, log_bytes.partition, [data], now_ms=1, chunk_bytes=2000).entries[0].key
    chunks = read_object_footer(store, key).chunks
    cache = tmp_path / "cache"
    cache.mkdir()
    before = store.count("get_range")
    first, second = fill_chunks(store, filling(log_bytes, key, [chunks[1], chunks[2]], cache)).chunks
    assert store.count("get_range") == before + 1
    assert list(cache.iterdir()) == []
    assert first.shared
    content = Path(first.path).read_bytes()[first.start : first.start + first.length]
    assert content == data[chunks[1].position : chunks[1].position + chunks[1].length]
    assert (second.path, second.start) == (first.path, chunks[2].position)
    with Path(first.path).open("r+b") as file:
        file.seek(chunks[2].position + 100)
        file.write(b"\xff\xff")
    with pytest.raises(CorruptObject):
        fill_chunks(store, filling(log_bytes, key, [chunks[2]], cache))


def test_an_object_on_another_file_system_is_copied(log_bytes, tmp_path, monkeypatch):
    """A cache on a faster disk than the archive is used as one."""
    store = LocalStore(str(tmp_path / "bucket"), sync=False)
    key = archive_log(store, log_bytes.partition, [log_bytes.segment(0, 40)], now_ms=1, chunk_bytes=2000).entries[0].key
    chunks = read_object_footer(store, key).chunks
    (tmp_path / "cache").mkdir()
    real = Path.stat

    def stat(path, **options):
        status = real(path, **options)
        return SimpleNamespace(st_dev=-1) if path.name == "cache" else status

    monkeypatch.setattr(Path, "stat", stat)
    (filled,) = fill_chunks(store, filling(log_bytes, key, [chunks[1]], tmp_path / "cache")).chunks
    monkeypatch.undo()
    assert (filled.shared, filled.start) == (False, 0)
    assert Path(filled.path).parent == tmp_path / "cache"
    assert Path(filled.path).stat().st_size == chunks[1].length


def test_a_chunk_off_its_borders_is_refused(archived, log_bytes, tmp_path):
    """A table that is consistent in itself but cuts through a batch is found by the walk."""
    from crc32c import crc32c

    store, key, chunks, data = archived
    wrong = chunks[0]._replace(length=chunks[0].length - 1, crc32c=crc32c(data[: chunks[0].length - 1]))
    with pytest.raises(CorruptObject, match="batch border"):
        fill_chunks(store, filling(log_bytes, key, [wrong], tmp_path))


def test_a_full_disk_leaves_no_temporary_file(archived, log_bytes, tmp_path):
    """An error of the cache's disk is passed on."""
    store, key, chunks, _ = archived
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "x").touch()
    with pytest.raises(OSError, match="directory"):
        fill_chunks(store, filling(log_bytes, key, [chunks[0]], tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


@given(st.integers(-10, 450), st.integers(0, 410), st.integers(0, 410))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_time_is_found_exactly(time_log, timestamp_ms, start, end):
    """The same record as a walk over all records: first in offset order with at least the time, inside the bounds."""
    store, partition, key, records = time_log
    found = find_timestamp(store, FindTimestamp(partition, key, timestamp_ms, start, end))
    walk = [r for r in records if r.timestamp_ms >= timestamp_ms and start <= r.offset < end]
    assert found == (TimestampFound(walk[0].timestamp_ms, walk[0].offset, 1) if walk else TimestampFound())


@pytest.fixture
def time_log(memory_store, log_bytes):
    """An object whose timestamps go back and forth between batches, in many chunks."""
    shifts = [0, 200, -50, 100, 0, -100, 40, 0]
    data = b"".join(
        log_bytes.batch(50 * i, 50, timestamp_ms=shift, codec=Codec.GZIP if i % 2 else Codec.NONE)
        for i, shift in enumerate(shifts)
    )
    manifest = archive_log(memory_store, log_bytes.partition, [data], now_ms=1, chunk_bytes=2000)
    records = [record for position, _ in iter_headers(data) for record in iter_records(data, position)]
    return memory_store, log_bytes.partition, manifest.entries[0].key, records


def test_the_largest_time_from_an_offset_on_is_found_exactly(time_log):
    """The same record as a walk over all records, from every offset, by two chunks at most."""
    store, partition, key, records = time_log
    for start in range(0, records[-1].offset + 2, 7):
        counting = CountingStore(store)
        found = find_largest_timestamp(counting, FindLargestTimestamp(partition, key, start))
        assert len(counting.requests) <= 3  # with the footer
        left = [one for one in records if one.offset >= start]
        first = max(left, key=lambda one: one.timestamp_ms, default=None)
        assert found == (TimestampFound() if first is None else TimestampFound(first.timestamp_ms, first.offset, 1))


def test_the_largest_time_below_an_offset_is_found_exactly(time_log):
    """A view may end in the middle of the object: what follows is not there for its readers."""
    store, partition, key, records = time_log
    for end in range(0, records[-1].offset + 2, 7):
        start = end // 2
        counting = CountingStore(store)
        found = find_largest_timestamp(counting, FindLargestTimestamp(partition, key, start, end))
        assert len(counting.requests) <= 4  # with the footer
        left = [one for one in records if start <= one.offset < end]
        first = max(left, key=lambda one: one.timestamp_ms, default=None)
        assert found == (TimestampFound() if first is None else TimestampFound(first.timestamp_ms, first.offset, 1))


def test_the_largest_time_is_none_of_a_deleted_record_of_the_same_batch(memory_store, log_bytes):
    """The header of the batch has the largest time of all its records."""
    batch = bytes(build_batch([Record(at, time, None, b"v") for at, time in enumerate((10, 60, 20, 55, 55))]))
    manifest = archive_log(memory_store, log_bytes.partition, [batch], now_ms=1)
    key = manifest.entries[0].key
    found = [
        find_largest_timestamp(memory_store, FindLargestTimestamp(log_bytes.partition, key, start)).offset
        for start in range(6)
    ]
    assert found == [1, 1, 3, 3, 4, -1]


def test_a_batch_that_cannot_be_opened_is_the_answer_where_it_may_hold_it(memory_store, log_bytes):
    """Its producer sent it like that. Neither look-ups nor cuts of a topic fail at it, and none passes over its offsets."""
    bad = bytearray(build_batch([Record(at, 200, None, b"v") for at in range(5, 10)], codec=Codec.ZSTD))
    bad[61:] = bytes(len(bad) - 61)
    bad[17:21] = crc32c(bad[21:]).to_bytes(4, "big")
    others = [[Record(base + at, time, None, b"v") for at in range(5)] for base, time in ((0, 100), (10, 300))]
    data = bytes(build_batch(others[0]) + bad + build_batch(others[1]))
    partition = log_bytes.partition
    manifest = archive_log(memory_store, partition, [data], now_ms=1)
    key = manifest.entries[0].key

    def first(timestamp_ms, start=0, end=100):
        return find_timestamp(memory_store, FindTimestamp(partition, key, timestamp_ms, start, end)).offset

    assert [first(100), first(150), first(150, 7), first(150, 0, 5), first(201)] == [0, 5, 7, -1, 10]
    assert offset_at(memory_store, manifest, 150) == 5
    largest = [
        find_largest_timestamp(memory_store, FindLargestTimestamp(partition, key, start, end))
        for start, end in ((0, 100), (0, 10), (7, 10), (0, 5))
    ]
    assert [(one.timestamp_ms, one.offset) for one in largest] == [(300, 10), (200, 5), (200, 7), (100, 0)]
    view = read_bounded_view(memory_store, ReadBoundedView(partition, timestamp_ms=250))
    assert (view.end_offset, view.tail.latest_ms, view.tail.latest_offset) == (10, 200, 5)


def test_only_chunks_that_may_hold_the_time_are_read(time_log):
    """A time beyond all reads the footer alone."""
    store, partition, key, _ = time_log
    counting = CountingStore(store)
    assert find_timestamp(counting, FindTimestamp(partition, key, 10**6)).offset == -1
    assert [request.operation for request in counting.requests] == ["get_suffix"]


def test_footers_aborted_lists_and_restart_states_are_read(memory_store, log_bytes):
    """Each by the footer and one part."""
    aborted = [AbortedTransaction(1, 10, 90, 50)]
    data = log_bytes.segment(0, 10)
    manifest = archive_log(memory_store, log_bytes.partition, [data], now_ms=1, aborted=aborted)
    key = manifest.entries[0].key
    footer = read_footer_of(memory_store, ReadFooter(log_bytes.partition, key))
    assert ChunkTable.from_bytes(footer.chunks).data_bytes == len(data)
    assert set(footer.blobs) >= {"offset_index", "time_index", "chunks"}
    assert list(read_aborted(memory_store, ReadAborted(log_bytes.partition, key)).aborted) == aborted
    state = read_restart_state(memory_store, ReadRestartState(log_bytes.partition, key))
    assert (state.leader_epochs, state.producer_snapshot) == (((1, 0),), b"")


@pytest.mark.parametrize("damage", ["nothing", "the chunk", "the disk"])
def test_the_chunk_that_a_reader_begins_with_comes_with_the_table(archived, log_bytes, tmp_path, damage):
    """Under the number that the table gives it; where it cannot be had there is the table, as always."""
    store, key, chunks, data = archived
    chunk = chunks[3]
    if damage == "the chunk":
        whole, _ = store.get(key)
        store.delete_many([key])
        store.put(key, whole[: chunk.position + 70] + b"\0\0" + whole[chunk.position + 72 :])
    path = (f"{tmp_path}/{'none/' if damage == 'the disk' else ''}chunk-", ".x")
    offset = chunk.first_offset + 1
    report = read_footer_of(store, ReadFooter(log_bytes.partition, key, offset, path))
    assert ChunkTable.from_bytes(report.chunks) == chunks
    assert report.number == 3
    if damage != "nothing":
        assert report.filled is None
        assert list(tmp_path.iterdir()) == []
        return
    assert report.filled.path == f"{tmp_path}/chunk-3.x"
    assert Path(report.filled.path).read_bytes() == data[chunk.position : chunk.position + chunk.length]
    assert report.filled.next_offset == chunks[4].first_offset
