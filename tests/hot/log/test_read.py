"""Tests of hot/log/read.py."""

import os
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import AppendOrigin
from stratalog.hot.log.read import check_batches
from stratalog.hot.segments.scan import UnreadableBatch
from stratalog.wire.batch import iter_headers
from stratalog.wire.errors import ErrorCode, KafkaError


@pytest.fixture
def log(bench):
    """Three segments of five batches of three records, written."""
    log = bench.open(LogConfig(index_interval_bytes=400))
    for _ in range(3):
        for _ in range(5):
            bench.append(log, 3)
        log.roll()
    return log


def test_a_fetch_at_any_offset_of_any_batch_begins_with_that_batch(bench, log):
    """First, middle and last offset; look-ups at base-1, base, last and last+1 of every segment are among them."""
    for offset in range(45):
        headers = [header for _, header in iter_headers(bench.content(log.read(offset, max_bytes=1, max_offset=45)))]
        assert [(header.base_offset, header.last_offset) for header in headers] == [
            (offset // 3 * 3, offset // 3 * 3 + 2)
        ]


def test_the_end_is_readable_and_empty(log):
    """The next offset to be written; beyond it is out of range."""
    found = log.read(45, max_bytes=100, max_offset=45)
    assert (found.parts, found.size_bytes, found.next_offset) == ([], 0, 45)
    for offset in (-1, 46):
        with pytest.raises(KafkaError) as caught:
            log.read(offset, max_bytes=100, max_offset=45)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("max_bytes", [1, 200, 700, 1000, 2500, 10_000])
def test_answers_are_whole_batches_within_max_bytes(bench, log, max_bytes):
    """One batch at least; the sum of all reads is the log, over segment borders too."""
    offset, seen = 0, b""
    while offset < 45:
        found = log.read(offset, max_bytes=max_bytes, max_offset=45)
        data = bench.content(found)
        headers = [header for _, header in iter_headers(data)]
        assert sum(header.size_bytes for header in headers) == len(data) == found.size_bytes
        assert len(data) <= max_bytes or len(headers) == 1
        assert found.next_offset == headers[-1].next_offset
        seen += data
        offset = found.next_offset
    whole = b"".join(bench.files.read_bytes(segment.path) for segment in log.segments())
    assert seen == whole


def test_without_min_one_batch_a_batch_that_does_not_fit_is_not_sent(log):
    """The size limit of a fetch is then strict."""
    found = log.read(4, max_bytes=10, max_offset=45, min_one_batch=False)
    assert (found.parts, found.next_offset) == ([], 4)
    assert log.read(4, max_bytes=10_000, max_offset=45, min_one_batch=False).next_offset == 45


def test_no_batch_at_or_above_max_offset_is_sent(bench, log):
    """The high watermark is a batch border anywhere in the log, inside segments and between them."""
    for end in range(0, 48, 3):
        found = log.read(0, max_bytes=1 << 20, max_offset=end)
        assert found.next_offset == min(end, 45)
        headers = [header for _, header in iter_headers(bench.content(found))]
        assert (headers[-1].next_offset if headers else 0) == min(end, 45)


def test_a_read_spans_segments_with_one_slice_each(log):
    """Up to the size asked for."""
    assert len(log.read(0, max_bytes=1 << 20, max_offset=45).parts) == 3
    assert len(log.read(14, max_bytes=1 << 20, max_offset=45).parts) == 3
    assert len(log.read(15, max_bytes=1 << 20, max_offset=45).parts) == 2


def test_slices_outlive_their_segment(bench, log):
    """A fetch in flight is not disturbed by retention."""
    found = log.read(0, max_bytes=1 << 20, max_offset=15)
    expected = bench.content(found)
    log.delete_local_before(15)
    assert log.take_removal(bench.now_ms) is None
    removal = log.take_removal(bench.now_ms + 10**6)
    assert removal is not None
    removal.run()
    assert not Path(f"{log.directory}/{0:020d}.log.deleted").exists()
    part = found.parts[0]
    assert os.pread(part.file.fileno(), part.length, part.position) == expected


def test_reading_on_at_the_tail_touches_no_index(bench, log, monkeypatch):
    """A consumer that follows the log finds its position in memory."""
    bench.append(log, 3)
    log.write_queued()
    assert log.read(45, max_bytes=1000, max_offset=48).next_offset == 48
    bench.append(log, 3)
    log.write_queued()
    monkeypatch.setattr(os, "pread", None)
    found = log.read(48, max_bytes=1000, max_offset=51)
    assert (found.next_offset, len(found.parts)) == (51, 1)


def test_markers_behind_the_range_are_found_too(bench):
    """The abort of a transaction may stand segments later than its records."""
    log = bench.open()
    bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll()
    bench.append(log, 2)
    log.roll()
    log.append_as_leader(bench.marker(commit=False), leader_epoch=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
    log.close()
    log = bench.open()
    assert [found.first_offset for found in log.aborted_transactions(0, 1)] == [0]
    assert log.aborted_transactions(5, 9) == []


@pytest.mark.parametrize("bit", range(64))
def test_a_flipped_bit_of_the_offset_of_a_batch_is_found_by_those_that_ask_again(bench, log, bit):
    """No CRC covers it: it would pass for a gap that a cleaner has left, and all below it for records that are gone."""
    log.sync()
    parts = log.read(6, max_bytes=1 << 20, max_offset=45).parts
    path = Path(f"{bench.directory}/{0:020d}.log")
    data = bytearray(path.read_bytes())
    position = len(data) // 5 * 2
    assert parts[0].position == position
    data[position + bit // 8] ^= 0x80 >> bit % 8
    path.write_bytes(data)
    with pytest.raises(UnreadableBatch):
        check_batches(parts, 6, 0)


def test_a_gap_that_a_cleaner_may_have_left_is_no_damage(bench, log):
    """Also for a reader inside of it, or inside of the first batch."""
    parts = log.read(6, max_bytes=1 << 20, max_offset=45).parts
    for offset, gaps_below in ((6, 0), (8, 0), (4, 6), (0, 45)):
        check_batches(parts, offset, gaps_below)
    with pytest.raises(UnreadableBatch, match=r"offset 4 is due, the batch there has \[6, 9\)"):
        check_batches(parts, 4, 5)
