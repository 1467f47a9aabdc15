"""Tests of hot/log/times.py."""

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.hot.cleaner.records import emptied_batch
from stratalog.hot.config import LogConfig
from stratalog.hot.log import times as log_time
from stratalog.hot.log.times import ScanOn
from stratalog.hot.segments.batch_search import BatchSearch, TimestampOffset
from stratalog.wire.batch import Record, build_batch, read_header
from stratalog.wire.compression import Codec


def test_the_exact_record_is_found_inside_its_batch(bench):
    """Also in a compressed batch; the epoch is its leader's."""
    log = bench.open()
    bench.append(log, 5, timestamp_ms=1000, epoch=3)
    bench.append(log, 5, timestamp_ms=2000, epoch=4, codec=Codec.ZSTD)
    log.write_queued()
    assert bench.offset_for_timestamp(log, 1002, max_offset=10) == TimestampOffset(1002, 2, 3)
    assert bench.offset_for_timestamp(log, 1005, max_offset=10) == TimestampOffset(2000, 5, 4)
    assert bench.offset_for_timestamp(log, 2003, max_offset=10) == TimestampOffset(2003, 8, 4)
    assert bench.offset_for_timestamp(log, 2005, max_offset=10) is None
    assert bench.offset_for_timestamp(log, 2003, max_offset=8) is None
    assert bench.max_timestamp(log) == TimestampOffset(2004, 9, 4)


def test_an_empty_log_has_no_timestamps(bench):
    """And neither has one whose records carry none."""
    log = bench.open()
    assert bench.max_timestamp(log) is None
    assert bench.offset_for_timestamp(log, 0, max_offset=0) is None
    bench.append(log, timestamp_ms=-1)
    log.write_queued()
    assert bench.max_timestamp(log) is None


def test_records_below_the_log_start_are_not_found(bench):
    """DeleteRecords inside a segment hides what lies before."""
    log = bench.open()
    bench.append(log, 5, timestamp_ms=1000)
    log.write_queued()
    log.advance_log_start(3)
    assert bench.offset_for_timestamp(log, 0, max_offset=5) == TimestampOffset(1003, 3, 1)


@given(st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=4), min_size=1, max_size=25), st.integers(-1, 310))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_look_up_by_time_finds_what_a_scan_finds(bench, times, wanted):
    """Times in any order, over several segments, after a restart too."""
    bench.begin_anew()
    log = bench.open(LogConfig(segment_bytes=600, index_interval_bytes=100, segment_ms=10**9))
    flat: list[tuple[int, int]] = []
    for stamps in times:
        records = [Record(number, stamp, None, b"v") for number, stamp in enumerate(stamps)]
        log.append_as_leader(memoryview(build_batch(records)), leader_epoch=0, now_ms=bench.now_ms)
        flat += [(stamp, len(flat) + number) for number, stamp in enumerate(stamps)]
    expected = next(((stamp, offset) for stamp, offset in flat if stamp >= wanted), None)
    newest = max(stamp for stamp, _ in flat)
    first_newest = next(offset for stamp, offset in flat if stamp == newest)
    for _ in range(2):
        log.write_queued()
        found = bench.offset_for_timestamp(log, wanted, max_offset=len(flat))
        assert (None if found is None else found[:2]) == expected
        assert bench.max_timestamp(log)[:2] == (newest, first_newest)
        log.close()
        log = bench.open(LogConfig(segment_bytes=600, index_interval_bytes=100))


@pytest.mark.story
def test_a_batch_of_very_many_records_does_not_fill_the_memory(bench):
    """Records are looked at one by one, up to the one that is looked for."""
    log = bench.open()
    records = [Record(number, bench.now_ms + (number == 29_999), None, b"") for number in range(30_000)]
    log.append_as_leader(memoryview(build_batch(records, codec=Codec.ZSTD)), leader_epoch=0, now_ms=bench.now_ms)
    log.write_queued()
    del records
    tracemalloc.start()
    found = bench.offset_for_timestamp(log, bench.now_ms + 1, max_offset=30_000)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert found.offset == 29_999
    assert peak_bytes < 2 << 20


def test_a_search_goes_on_behind_a_batch_that_does_not_hold_the_record(bench):
    """Step by step, each batch once; what lies wholly below the start is not opened."""
    log = bench.open()
    for _ in range(3):
        bench.append(log, 5, timestamp_ms=1000)
    log.write_queued()
    first = log.timestamp_search(1000, 7, max_offset=15)
    assert isinstance(first, BatchSearch)
    assert (first.next_offset, first.find()) == (10, TimestampOffset(1002, 7, 1))
    second = log.timestamp_search(1000, first.next_offset, max_offset=15)
    assert (second.next_offset, second.find()) == (15, TimestampOffset(1000, 10, 1))
    assert log.timestamp_search(1000, second.next_offset, max_offset=15) is None
    assert log.timestamp_search(1000, 0, max_offset=0) is None


def test_passing_over_very_many_batches_is_done_in_steps(bench, monkeypatch):
    """Behind a log start that hides the newest record every batch is too old."""
    monkeypatch.setattr(log_time, "_HEADERS_MAX", 4)
    log = bench.open()
    bench.append(log, timestamp_ms=9000)
    for _ in range(9):
        bench.append(log, timestamp_ms=1000)
    bench.append(log, timestamp_ms=5000)
    log.write_queued()
    log.advance_log_start(1)
    assert log.timestamp_search(2000, 1, max_offset=11) == ScanOn(5)
    assert log.timestamp_search(2000, 5, max_offset=11) == ScanOn(9)
    assert log.timestamp_search(2000, 9, max_offset=11).find() == TimestampOffset(5000, 10, 1)
    assert bench.offset_for_timestamp(log, 2000, max_offset=11) == TimestampOffset(5000, 10, 1)


def test_batches_that_a_cleaner_has_emptied_are_passed_over(bench):
    """They keep their times. To open each of some thousands held the loop for 0.2 s."""
    log = bench.open()
    records = [Record(n, 1000 + n, b"k", b"v") for n in range(100)]
    batches = [build_batch([one], leader_epoch=1) for one in records]
    emptied = [emptied_batch(read_header(one)) for one in batches[:-1]]
    log.append_as_follower(memoryview(b"".join([*emptied, batches[-1]])), leader_epoch=1, now_ms=bench.now_ms)
    log.write_queued()
    step = log.timestamp_search(0, 0, max_offset=100)
    assert isinstance(step, BatchSearch)
    assert step.find() == TimestampOffset(1099, 99, 1)


def test_the_newest_record_is_looked_for_in_its_batch(bench):
    """A header that promises a time which no record has is answered by the batch's last offset."""
    log = bench.open()
    assert log.max_timestamp_search() is None
    bench.append(log, 3, timestamp_ms=1000)
    assert log.max_timestamp_search() == TimestampOffset(1002, 2, -1)
    log.write_queued()
    search = log.max_timestamp_search()
    assert isinstance(search, BatchSearch)
    assert (search.timestamp_ms, search.otherwise) == (1002, TimestampOffset(1002, 2, 1))
    assert search.find() == TimestampOffset(1002, 2, 1)
