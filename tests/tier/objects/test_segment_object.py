from __future__ import annotations

import os
import pickle
import tracemalloc
from types import SimpleNamespace

import pytest
from crc32c import crc32c
from msgspec.structs import replace

from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.objects.footer import BLOBS
from stratalog.tier.objects.segment_blobs import AbortedTransaction, aborted_from_bytes, epochs_from_bytes
from stratalog.tier.objects.segment_object import CorruptSource, FileRange, SegmentRequest, build_segment
from stratalog.tier.stores.source import as_bytes
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Invalid


@pytest.fixture
def request_for(log_bytes, tmp_path):
    """Makes a request for a range that is spread over two files with other bytes around it."""

    def make(first, second, base, end, **options):
        sources = []
        for number, data in enumerate((first, second)):
            path = tmp_path / f"{number}.log"
            path.write_bytes(b"before" + data + b"behind")
            sources.append(FileRange(str(path), 6, len(data)))
        return SegmentRequest(log_bytes.partition, bytes(16), base, end, 5, tuple(sources), **options)

    return make


def blob(built, data, name):
    """The bytes of one part."""
    at = built.footer.blobs[name]
    return data[at.position : at.position + at.length]


def test_the_object_begins_with_the_log_bytes_exactly(log_bytes, request_for):
    """The range's bytes first, its CRC over everything."""
    first, second = log_bytes.segment(0, 10), log_bytes.segment(100, 5, codec=Codec.GZIP)
    built = build_segment(request_for(first, second, 0, 150))
    data = as_bytes(built.source)
    assert data.startswith(first + second)
    entry = built.entry
    assert (entry.size_bytes, entry.crc32c) == (len(data), crc32c(data))
    assert (entry.data_bytes, entry.data_crc32c) == (len(first + second), crc32c(first + second))
    assert (entry.base, entry.end, entry.epoch) == (0, 150, 5)
    assert (entry.batch_count, entry.record_count) == (15, 150)
    assert (entry.min_timestamp_ms, entry.max_timestamp_ms, entry.max_timestamp_offset) == (1000, 1149, 149)
    assert entry.codecs == ("none", "gzip")
    assert entry.key == log_bytes.partition.segment_key(0, 150, 5, bytes(16))
    assert isinstance(built.source[0], FileRange)


@pytest.mark.parametrize("window_bytes", [100, 700, 1 << 20])
def test_with_a_buffer_files_are_read_once(log_bytes, request_for, monkeypatch, window_bytes):
    """The same object, sent from the buffer, whatever is read at once."""
    monkeypatch.setattr("stratalog.tier.objects.segment_object._WINDOW_BYTES", window_bytes)
    request = request_for(log_bytes.segment(0, 10), log_bytes.segment(100, 5, codec=Codec.GZIP), 0, 150)
    buffer = memoryview(bytearray(1 << 20))
    built = build_segment(request, buffer)
    assert not any(isinstance(piece, FileRange) for piece in built.source)
    assert built.source[0].obj is buffer.obj
    expected = build_segment(request)
    assert built.entry == expected.entry
    assert as_bytes(built.source) == as_bytes(expected.source)


def test_a_range_larger_than_the_buffer_is_sent_from_its_file(log_bytes, request_for):
    """Memory stays within what was given."""
    request = request_for(log_bytes.segment(0, 10), log_bytes.segment(100, 5), 0, 150)
    length = request.source[0].length
    built = build_segment(request, memoryview(bytearray(length)))
    assert [isinstance(piece, FileRange) for piece in built.source] == [False, True, False]
    assert as_bytes(built.source) == as_bytes(build_segment(request).source)


def test_windows_slide_over_batches_of_any_size(log_bytes, request_for, monkeypatch):
    """A window smaller than a batch grows for it, and every batch is seen once."""
    monkeypatch.setattr("stratalog.tier.objects.segment_object._windows", SimpleNamespace(buffer=bytearray(700)))
    first = log_bytes.segment(0, 10) + log_bytes.batch(100, value=bytes(3000)) + log_bytes.segment(110, 3)
    built = build_segment(request_for(first, log_bytes.segment(140, 1), 0, 150))
    assert built.entry.batch_count == 15
    assert built.entry.data_crc32c == crc32c(as_bytes(built.source)[: built.entry.data_bytes])


def test_without_a_buffer_memory_does_not_grow_with_the_range(log_bytes, request_for):
    """A range of four windows is never in memory as a whole."""
    data = b"".join(bytes(log_bytes.batch(base, value=bytes(100_000))) for base in range(0, 400, 10))
    request = request_for(data, b"", 0, 400)
    tracemalloc.start()
    try:
        build_segment(request)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < len(data) // 4


def test_the_parts_hold_what_a_restore_needs(log_bytes, request_for):
    """Leader epochs up to the end, the producer snapshot, every overlapping aborted transaction."""
    aborted = (AbortedTransaction(9, 5, 120, 90),)
    request = request_for(
        log_bytes.segment(50, 5),
        log_bytes.segment(100, 5),
        50,
        150,
        leader_epochs=(LeaderEpoch(0, 0), LeaderEpoch(1, 20), LeaderEpoch(2, 150)),
        producer_snapshot=b"snapshot",
        aborted=aborted,
    )
    built = build_segment(request)
    data = as_bytes(built.source)
    assert epochs_from_bytes(blob(built, data, "leader_epochs")) == (LeaderEpoch(0, 0), LeaderEpoch(1, 20))
    assert built.entry.epochs == (LeaderEpoch(1, 50),)
    assert blob(built, data, "producer_snapshot") == b"snapshot"
    assert aborted_from_bytes(blob(built, data, "aborted")) == aborted
    assert built.entry.aborted_count == 1
    assert set(built.footer.blobs) == set(BLOBS)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([(3, 120)], [(1, 50), (3, 100)]),
        ([(1, 70), (3, 100)], [(1, 50), (3, 100)]),
        ([(3, 100)], [(1, 50), (3, 100)]),
        ([(1, 40), (3, 95)], [(1, 50), (3, 95)]),
        ([(2, 200)], [(1, 50), (3, 100)]),
    ],
)
def test_epochs_missing_from_a_history_come_from_the_batches(log_bytes, request_for, history, expected):
    """A log forgets the epochs below its log start, which may lie inside the range: its entry tells them all the same."""
    first, second = log_bytes.segment(50, 5, leader_epoch=1), log_bytes.segment(100, 5, leader_epoch=3)
    epochs = tuple(LeaderEpoch(*each) for each in history)
    built = build_segment(request_for(first, second, 50, 150, leader_epochs=epochs))
    assert built.entry.epochs == tuple(LeaderEpoch(*each) for each in expected)


def test_a_corrupt_batch_names_where_it_is(log_bytes, request_for):
    """Topic, partition, offset, file and position are in the error, which survives pickling."""
    second = bytearray(log_bytes.segment(100, 5))
    size_bytes = len(second) // 5
    second[3 * size_bytes - 1] ^= 1
    with pytest.raises(CorruptSource) as caught:
        build_segment(request_for(log_bytes.segment(0, 10), bytes(second), 0, 150))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.partition, error.offset, error.position) == (log_bytes.partition, 120, 6 + 2 * size_bytes)
    assert error.path.endswith("1.log")
    for word in ("orders-3", "offset 120", "1.log", "CRC"):
        assert word in str(error)


def test_a_length_field_gone_wild_is_corrupt_not_a_huge_read(log_bytes, request_for, monkeypatch):
    """A batch that claims two gigabytes is found out, and memory of that size is not allocated."""
    first = bytearray(log_bytes.segment(0, 10))
    first[8:12] = (2**31 - 1).to_bytes(4, "big")
    monkeypatch.setattr("stratalog.tier.objects.segment_object._windows", SimpleNamespace(buffer=bytearray(700)))
    with pytest.raises(CorruptSource, match="claims"):
        build_segment(request_for(bytes(first), b"", 0, 100))


def test_a_range_that_does_not_end_where_it_should_is_corrupt(log_bytes, request_for):
    """A missing last batch is noticed although every byte that is there is right."""
    with pytest.raises(CorruptSource, match="ends at offset 100, the range at 110"):
        build_segment(request_for(log_bytes.segment(0, 10), b"", 0, 110))


def test_a_file_that_ends_early_is_corrupt(log_bytes, request_for):
    """A range beyond the file's end is never filled with anything."""
    request = request_for(log_bytes.segment(0, 10), b"", 0, 100)
    source = replace(request.source[0], length=request.source[0].length + 100)
    with pytest.raises(CorruptSource, match="the file ends"):
        build_segment(replace(request, source=(source,)))


@pytest.mark.parametrize(("base", "end"), [(0, 0), (0, 2**31), (5, 5)])
def test_ranges_that_an_index_cannot_address_are_refused(log_bytes, base, end):
    """At least an offset, at most 2**31 - 1."""
    with pytest.raises(Invalid, match="cannot be one object"):
        build_segment(SegmentRequest(log_bytes.partition, os.urandom(16), base, end, 1, (b"x" * 61,)))
