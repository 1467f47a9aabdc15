"""Tests of hot/log/tail.py."""

import os
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig

OF_2013 = 1_357_000_000_000


def bases(log) -> list[int]:
    return [segment.base_offset for segment in log.segments()]


def test_a_segment_rolls_by_size(bench):
    """The batch that does not fit opens the next one; a batch that just fits does not."""
    size = len(bench.batch())
    log = bench.open(LogConfig(segment_bytes=2 * size))
    assert [bench.append(log).rolled for _ in range(4)] == [False, False, True, False]
    log.write_queued()
    assert bases(log) == [0, 2]
    assert Path(f"{log.directory}/{0:020d}.log").stat().st_size == 2 * size


def test_a_segment_rolls_by_the_age_of_its_first_record_against_the_new_one(bench):
    """Record time, Kafka's rule: the wall clock plays no part while there are timestamps."""
    log = bench.open(LogConfig(segment_ms=1000))
    bench.append(log, timestamp_ms=OF_2013)
    bench.now_ms += 10_000
    bench.append(log, timestamp_ms=OF_2013 + 1000)
    assert bases(log) == [0]
    bench.append(log, timestamp_ms=OF_2013 + 1001)
    assert bases(log) == [0, 2]


def test_without_timestamps_the_wall_clock_decides(bench):
    """The first append began the segment."""
    log = bench.open(LogConfig(segment_ms=1000))
    bench.append(log, timestamp_ms=-1)
    bench.now_ms += 1000
    bench.append(log, timestamp_ms=-1)
    assert bases(log) == [0]
    bench.now_ms += 1
    bench.append(log, timestamp_ms=-1)
    assert bases(log) == [0, 2]


def test_a_segment_rolls_by_a_full_index(bench):
    """segment.index.bytes=80 and index.interval.bytes=0: the time index keeps one of its 6 slots for the roll."""
    log = bench.open(LogConfig(segment_index_bytes=80, index_interval_bytes=0))
    for number in range(8):
        bench.append(log, timestamp_ms=bench.now_ms + number)
    assert bases(log) == [0, 6]
    log.write_queued()
    assert Path(f"{log.directory}/{0:020d}.timeindex").stat().st_size == 5 * 12
    log = bench.open(LogConfig(segment_index_bytes=80, index_interval_bytes=0), clean=False)
    log.truncate_fully_and_start_at(0, (), None)
    for _ in range(12):
        bench.append(log, timestamp_ms=5)
    assert bases(log) == [0, 11]


def test_a_segment_has_an_offset_index_from_its_first_bytes_on(bench):
    """Kafka, started on the directory after a kill, misses it where a recovery point lies in the active segment."""
    log = bench.open(LogConfig(segment_bytes=2 * len(bench.batch())))
    for _ in range(3):
        bench.append(log)
    log.write_queued()
    sizes = {path.name: path.stat().st_size for path in Path(log.directory).glob("*.index")}
    assert sizes.keys() == {f"{0:020d}.index", f"{2:020d}.index"}
    assert sizes[f"{2:020d}.index"] == 0


def test_index_entries_follow_kafkas_rule(bench):
    """An entry when more than the interval lies before the batch; it names that batch's last offset and position."""
    size = len(bench.batch(2))
    log = bench.open(LogConfig(index_interval_bytes=2 * size))
    for _ in range(8):
        bench.append(log, 2)
    log.roll()
    data = bench.files.read_bytes(f"{log.directory}/{0:020d}.index")
    entries = [
        (int.from_bytes(data[at : at + 4]), int.from_bytes(data[at + 4 : at + 8])) for at in range(0, len(data), 8)
    ]
    assert entries == [(7, 3 * size), (13, 6 * size)]


def test_the_tick_freezes_an_idle_segment_by_wall_clock_and_never_by_record_time(bench):
    """Records of 2013 do not roll on every tick; segment.ms after the first append they do."""
    log = bench.open(LogConfig(segment_ms=60_000))
    assert not log.tick(bench.now_ms + 10**9)
    bench.append(log, timestamp_ms=OF_2013)
    assert not log.tick(bench.now_ms + 59_999)
    assert log.tick(bench.now_ms + 60_000)
    assert bases(log) == [0, 1]
    assert not log.tick(bench.now_ms + 10**9)
    assert Path(f"{log.directory}/{1:020d}.log").exists()


def test_an_empty_segment_is_not_rolled(bench):
    """There is nothing to freeze."""
    log = bench.open()
    assert not log.roll()
    bench.append(log)
    assert log.roll()
    assert bases(log) == [0, 1]


def test_one_writev_carries_everything_queued_for_a_segment(bench, monkeypatch):
    """The result is the same for each number of batches."""
    calls = []
    real = os.writev
    log = bench.open()
    monkeypatch.setattr(os, "writev", lambda fd, buffers: calls.append(len(buffers)) or real(fd, buffers))
    for _ in range(50):
        bench.append(log)
    log.leader_epochs.dirty = False
    log.write_queued()
    assert calls == [50]


def test_no_batch_is_visible_before_it_is_written(bench):
    """The log end counts what is queued, written_offset what is in the file."""
    log = bench.open()
    bench.append(log, 3)
    assert (log.log_end_offset, log.written_offset, log.flushed_offset) == (3, 0, 0)
    assert log.queued_bytes == log.size_bytes > 0
    assert log.read(0, max_bytes=1000, max_offset=3).parts == []
    log.write_queued()
    assert (log.written_offset, log.flushed_offset) == (3, 0)
    assert log.queued_bytes == 0


def test_the_buffer_is_released_when_its_bytes_are_in_the_file(bench):
    """A release waits for the write, and comes once over two writes."""
    log = bench.open()
    released = []
    log.append_as_leader(bench.batch(), leader_epoch=0, now_ms=bench.now_ms, release=lambda: released.append(1))
    assert released == []
    log.write_queued()
    log.write_queued()
    assert released == [1]


def test_sizes_count_what_is_queued(bench):
    """As the retention of a growing log needs them."""
    log = bench.open()
    bench.append(log)
    bench.append(log)
    assert log.size_bytes == 2 * len(bench.batch())
    (segment,) = log.segments()
    assert (segment.base_offset, segment.end_offset, segment.active) == (0, 2, True)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("room", [0, 12, 46, 80, 114, 130])
def test_a_roll_on_a_full_disk_keeps_the_aborted_transactions(bench, full_disk, room, clean):
    """At each try, and also after the next start."""
    bench.files = full_disk
    log = bench.open()
    expected = bench.write_aborted(log, 3)
    full_disk.room = room
    with pytest.raises(OSError, match="no space"):
        log.roll()
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            log.discard_unwritten()
    full_disk.room = 1 << 30
    log.discard_unwritten()
    bench.append(log, 1)
    log.sync()
    point = log.flushed_offset
    if clean:
        log.close()
    else:
        log.abandon()
    log = bench.open(clean=clean, recovery_point=point)
    assert log.active_base_offset == 9
    assert log.aborted_transactions(0, 9) == expected
