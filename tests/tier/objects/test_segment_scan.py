from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.recovery.damage import empty_batch
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.objects.segment_scan import SegmentScan
from stratalog.wire.batch import BATCH_HEADER, HEADER_BYTES, Record, build_batch, iter_headers, iter_records
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt


def scan(data, base, end, **options):
    """Every batch of ``data`` fed to a scan, and the scan finished."""
    found = SegmentScan(base, end, **options)
    at = 0
    while at < len(data):
        at += found.add(data, at)
    found.finish()
    return found


blobs = st.none() | st.binary(max_size=200)
records = st.lists(st.tuples(st.integers(-(2**40), 2**40), blobs, blobs), min_size=1, max_size=20)


@given(records, st.sampled_from(list(Codec)))
def test_counts_and_times_are_those_of_the_records(rows, codec):
    """The quick pass over lengths agrees with the full decoder, whatever the codec."""
    made = [Record(7 + i, 2**41 + t, k, v) for i, (t, k, v) in enumerate(rows)]
    batch = bytes(build_batch(made, codec=codec, leader_epoch=3))
    found = scan(batch, 7, 7 + len(made))
    decoded = list(iter_records(batch))
    assert found.record_count == len(decoded)
    assert found.min_timestamp_ms == min(r.timestamp_ms for r in decoded)
    assert found.max_timestamp_ms == max(r.timestamp_ms for r in decoded)
    assert found.codecs == {codec}


def test_chunks_are_cut_on_batch_borders_and_carry_their_crc(log_bytes):
    """Chunks follow each other, none is larger than asked for, and each CRC-32C is that of its bytes."""
    data = log_bytes.segment(100, 40)
    found = scan(data, 100, 500, chunk_bytes=2000)
    starts = {position: header.base_offset for position, header in iter_headers(data)}
    assert len(found.chunks) > 3
    for chunk in found.chunks:
        piece = data[chunk.position : chunk.position + chunk.length]
        assert starts[chunk.position] == chunk.first_offset
        assert chunk.length <= 2000
        assert chunk.crc32c == crc32c(piece)
        assert chunk.max_timestamp_ms == max(h.max_timestamp for _, h in iter_headers(piece))
    assert found.chunks.data_bytes == len(data) == found.data_bytes
    assert found.data_crc32c == crc32c(data)


def test_a_batch_larger_than_a_chunk_is_a_chunk_of_its_own(log_bytes):
    """A chunk always holds whole batches."""
    data = log_bytes.batch(0) + log_bytes.batch(10, value=bytes(5000)) + log_bytes.batch(20)
    found = scan(data, 0, 30, chunk_bytes=1000)
    assert [chunk.first_offset for chunk in found.chunks] == [0, 10, 20]


def test_the_offset_index_points_at_batches(log_bytes):
    """Kafka's rule: last offset of the batch and its position, once more than the interval lies between."""
    data = log_bytes.segment(1000, 50)
    found = scan(data, 1000, 1500, index_interval_bytes=1000)
    batches = dict(iter_headers(data))
    entries = list(struct.iter_unpack(">ii", found.offset_index))
    assert len(entries) > 5
    assert all(batches[position].last_offset == 1000 + relative for relative, position in entries)
    positions = [0] + [position for _, position in entries]
    assert all(b - a > 1000 for a, b in pairwise(positions))


def test_the_time_index_ends_with_the_largest_timestamp(log_bytes):
    """Timestamps ascend in it, and the last entry is the segment's largest."""
    data = log_bytes.batch(0, timestamp_ms=500) + log_bytes.batch(10, timestamp_ms=10) + log_bytes.batch(20)
    found = scan(data, 0, 30, index_interval_bytes=0)
    entries = list(struct.iter_unpack(">qi", found.time_index))
    assert entries == sorted(entries)
    assert entries[-1] == (1029, 29)
    assert (found.max_timestamp_ms, found.max_timestamp_offset) == (1029, 29)


def test_epochs_and_markers_are_noted(log_bytes):
    """Each leader epoch with its first offset; control batches are counted."""
    data = (
        log_bytes.batch(0) + log_bytes.batch(10, leader_epoch=4) + log_bytes.batch(20, 1, leader_epoch=4, control=True)
    )
    found = scan(data, 0, 21)
    assert found.epochs == [LeaderEpoch(1, 0), LeaderEpoch(4, 10)]
    assert (found.control_batch_count, found.batch_count) == (1, 3)


def test_log_append_time_counts_for_all_records(log_bytes):
    """The batch's own time replaces those of its records."""
    found = scan(log_bytes.batch(0, log_append_time_ms=77), 0, 10)
    assert (found.min_timestamp_ms, found.max_timestamp_ms) == (77, 77)


def patched(data, position, layout, value):
    """``data`` with a field outside the CRC, or under a new CRC, replaced."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return bytes(changed)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda b: b.batch(1), "base offset 1, 0 is due"),
        (lambda b: b.batch(0) + b.batch(11, 9), "base offset 11, 10 is due"),
        (lambda b: b.batch(0) + b.batch(9, 11), "base offset 9, 10 is due"),
        (lambda b: b.batch(0), "ends at offset 10, the range at 20"),
        (lambda b: b.batch(0, 21), "ends at offset 21, the range at 20"),
        (lambda b: b"", "no batch"),
        (lambda b: b.batch(0, leader_epoch=5) + b.batch(10, leader_epoch=4), "leader epoch falls"),
        (lambda b: patched(b.batch(0, 20), 57, ">i", 19), "its header says 19 over 20"),
        (lambda b: patched(b.batch(0, 19), 23, ">i", 19), "its header says 19 over 20"),
        (lambda b: b.batch(0, 20)[:-1] + b"x", "CRC"),
        (lambda b: b.batch(0, 20)[:-1], "claims"),
    ],
)
def test_damage_is_found(log_bytes, make, match):
    """Gaps, overlaps, headers that contradict themselves, falling epochs, torn and flipped bytes are all refused."""
    with pytest.raises(Corrupt, match=match):
        scan(make(log_bytes), 0, 20)


def test_batches_that_the_cleaner_emptied_count_for_no_time(log_bytes):
    """They have offsets and a largest time, but no record."""
    emptied = bytearray(log_bytes.batch(3, 2)[:HEADER_BYTES])
    fields = list(BATCH_HEADER.unpack(emptied))
    fields[1], fields[5], fields[7], fields[12] = HEADER_BYTES - 12, 0, -1, 0
    BATCH_HEADER.pack_into(emptied, 0, *fields)
    fields[4] = crc32c(bytes(emptied[21:]))
    BATCH_HEADER.pack_into(emptied, 0, *fields)
    found = scan(bytes(emptied), 0, 20, compacted=True)
    assert (found.record_count, found.batch_count, found.min_timestamp_ms) == (0, 1, None)
    assert found.max_timestamp_ms == fields[8]


def test_a_batch_without_records_is_a_hole_in_any_log(log_bytes):
    """A log that is not compacted has it where its disk lost offsets for good; a batch that lacks some records is damage."""
    empty = bytes(empty_batch(10, 20, 1))
    found = scan(log_bytes.batch(0, 10) + empty + log_bytes.batch(20, 5), 0, 25)
    assert (found.record_count, found.batch_count, found.has_empty_batch) == (15, 3, True)
    assert not scan(log_bytes.batch(0, 10), 0, 10).has_empty_batch
    with pytest.raises(Corrupt, match="its header says 0"):
        scan(patched(log_bytes.batch(0, 20), 57, ">i", 0), 0, 20)


def test_a_compacted_range_may_have_holes(log_bytes):
    """Offsets may be missing at the start, between batches, inside them and at the end, but never go back."""
    holes = build_batch([Record(12, 5, b"k", b"v"), Record(15, 6, b"k", b"v")], leader_epoch=1)
    data = log_bytes.batch(3, 2) + holes
    found = scan(data, 0, 20, compacted=True)
    assert (found.record_count, found.batch_count) == (4, 2)
    assert found.epochs == [LeaderEpoch(1, 0)]
    with pytest.raises(Corrupt, match="is due"):
        scan(holes + log_bytes.batch(3, 2), 0, 20, compacted=True)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda b: patched(b.batch(0, 20), 61, ">B", 0x01), "length of -1"),
        (lambda b: patched(b.batch(0, 20), 61, ">B", 0x04), "length of 2"),
        (lambda b: patched(b.batch(0, 20, codec=Codec.ZSTD), 70, ">Q", 0), "decompressed"),
        (lambda b: patched(patched(b.batch(0, 20), 57, ">i", 30), 23, ">i", 29), "20 records, its header says 30"),
    ],
)
def test_a_batch_that_its_producer_sent_wrong_is_archived_as_it_is(log_bytes, make, why):
    """Its CRC says so. The header is believed, what lies behind reaches the archive, and the scan tells of it."""
    data = make(log_bytes)
    end = BATCH_HEADER.unpack_from(data)[6] + 1
    found = scan(data + log_bytes.batch(end, 5), 0, end + 5)
    assert (found.batch_count, found.record_count, found.unread_count) == (2, end + 5, 1)
    assert (found.data_bytes, found.next_offset) == (len(data) + len(log_bytes.batch(end, 5)), end + 5)
    assert found.unread_first.startswith("the one at offset 0: ")
    assert why in found.unread_first
    assert scan(log_bytes.batch(0, 20), 0, 20).unread_count == 0


def test_a_wrong_record_count_is_noted_where_holes_are_allowed(log_bytes):
    """A compacted range may miss offsets, but its headers still count its records."""
    found = scan(patched(log_bytes.batch(0, 20), 57, ">i", 19), 0, 20, compacted=True)
    assert (found.record_count, found.unread_first) == (
        19,
        "the one at offset 0: it holds 20 records, its header says 19",
    )


def test_a_batch_too_large_to_be_opened_is_archived_as_it_is(monkeypatch):
    """Two kilobytes may hold gigabytes: its header is believed, and what lies behind it reaches the archive."""
    bomb = build_batch([Record(7, 5000, b"k", bytes(100_000)), Record(8, 6000, b"k", b"v")], codec=Codec.ZSTD)
    behind = build_batch([Record(9, 4000, b"k", b"v" * 50)], codec=Codec.ZSTD)
    data = bytes(bomb + behind)
    monkeypatch.setattr("stratalog.tier.objects.segment_scan.DECOMPRESSED_BYTES_MAX", 1000)
    found = scan(data, 7, 10)
    assert (found.record_count, found.batch_count, found.data_bytes) == (3, 2, len(data))
    assert (found.min_timestamp_ms, found.max_timestamp_ms) == (4000, 6000)
