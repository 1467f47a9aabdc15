"""Tests of hot/log_write.py."""

import errno
import os
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.filesystem import RealFilesystem
from stratalog.wire.errors import ErrorCode, KafkaError

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


def test_a_roll_leaves_a_snapshot_of_the_producers_at_that_point(bench):
    """Also when later batches are queued before anything is written."""
    from stratalog.hot.producer_snapshot import snapshot_from_bytes

    size = len(bench.batch(1))
    log = bench.open(LogConfig(segment_bytes=2 * size))
    for sequence in range(3):
        bench.append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.write_queued()
    entries = snapshot_from_bytes(bench.files.read_bytes(f"{log.directory}/{2:020d}.snapshot"))
    assert [entry.last_sequence for entry in entries] == [1]


def test_one_writev_carries_everything_queued_for_a_segment(bench, monkeypatch):
    """Whatever the number of batches."""
    calls = []
    real = os.writev
    log = bench.open()
    monkeypatch.setattr(os, "writev", lambda fd, buffers: calls.append(len(buffers)) or real(fd, buffers))
    for _ in range(50):
        bench.append(log)
    log.leader_epochs.dirty = False
    log.write_queued()
    assert calls == [50]


def test_flushed_offset_moves_when_the_sync_is_finished(bench):
    """To what was written when it began."""
    log = bench.open()
    bench.append(log, 2)
    log.write_queued()
    ticket = log.begin_sync()
    bench.append(log, 3)
    log.write_queued()
    ticket.run()
    assert log.flushed_offset == 0
    log.finish_sync(ticket)
    assert (log.flushed_offset, log.written_offset) == (2, 5)
    log.sync()
    assert log.flushed_offset == 5
    assert log.begin_sync() is None


@pytest.mark.parametrize(("cut", "flushed"), [(3, 3), (0, 0)])
def test_a_sync_counts_only_what_a_truncation_left_of_its_data(bench, cut, flushed):
    """What was appended in the place of the rest was written after the files were handed over."""
    log = bench.open()
    for _ in range(5):
        bench.append(log)
    log.write_queued()
    ticket = log.begin_sync()
    log.truncate_to(cut)
    for _ in range(5):
        bench.append(log)
    log.write_queued()
    ticket.run()
    log.finish_sync(ticket)
    assert (log.flushed_offset, log.written_offset) == (flushed, cut + 5)
    log.sync()
    assert log.flushed_offset == cut + 5


def test_a_sync_of_a_log_that_was_begun_anew_meanwhile_counts_nothing(bench):
    """Its files are not those of the log any more, whatever the offsets say."""
    log = bench.open()
    for _ in range(5):
        bench.append(log)
    log.write_queued()
    ticket = log.begin_sync()
    log.truncate_fully_and_start_at(2, (), None)
    for _ in range(5):
        bench.append(log)
    log.write_queued()
    ticket.run()
    log.finish_sync(ticket)
    assert (log.flushed_offset, log.written_offset) == (2, 7)


def test_a_sync_that_overtakes_another_counts_with_it(bench):
    """The first one has files in hand that the second one therefore does not sync."""
    log = bench.open()
    bench.append(log)
    log.write_queued()
    first = log.begin_sync()
    bench.append(log)
    log.sync()
    assert log.flushed_offset == 0
    first.run()
    log.finish_sync(first)
    assert log.flushed_offset == 2


def test_a_log_of_the_same_name_and_another_topic_takes_no_epochs_of_this_one(bench):
    """A topic is deleted and created again while its epochs wait for their sync: both syncs find their own file."""
    old = bench.open()
    bench.append(old)
    old.write_queued()
    ticket = old.begin_sync()
    Path(bench.directory).rename(f"{bench.directory}.deleted")
    bench.topic_id = bytes(16)
    new = bench.open()
    bench.append(new, epoch=5)
    new.write_queued()
    with pytest.raises(FileNotFoundError):
        ticket.run()
    new.sync()
    assert b"5 0" in Path(f"{bench.directory}/leader-epoch-checkpoint").read_bytes()


def test_a_failed_sync_stops_the_log(bench, monkeypatch):
    """KAFKA_STORAGE_ERROR from then on, and no acknowledgement for what was under way."""
    log = bench.open()
    bench.append(log)
    log.write_queued()
    ticket = log.begin_sync()

    def fail(_fd):
        raise OSError(errno.EIO, "lost")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="lost"):
        ticket.run()
    log.finish_sync(ticket)
    assert log.flushed_offset == 0
    with pytest.raises(KafkaError) as caught:
        bench.append(log)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


class Full(RealFilesystem):
    """A disk that takes ``room`` more bytes: a short write, then ENOSPC; and ``names``, or none."""

    room = 1 << 30
    names = True

    def open_append(self, path):
        if not self.names and not os.path.exists(path):  # noqa: PTH110 - paths are texts here
            raise OSError(errno.ENOSPC, "no space left")
        file = super().open_append(path)
        files = self
        plain = type(file)

        class Limited(plain):
            def writev(self, buffers):
                data = b"".join(buffers)[: files.room]
                if not data:
                    raise OSError(errno.ENOSPC, "no space left")
                files.room -= len(data)
                return super().writev([data])

        limited = Limited(os.dup(file.fileno()), path)
        file.close()
        return limited


def test_a_full_disk_fails_the_appends_and_the_log_goes_on_without_a_hole_when_there_is_room(bench):
    """A short write and ENOSPC: reads continue, nothing half-written stays, offsets are given anew."""
    bench.files = Full()
    log = bench.open()
    bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0)
    log.sync()
    released = []
    bench.files.room = 150
    for sequence in (2, 3):
        log.append_as_leader(
            bench.batch(1, producer_id=7, producer_epoch=0, base_sequence=sequence),
            leader_epoch=1, now_ms=bench.now_ms, release=lambda: released.append(1),
        )  # fmt: skip
    with pytest.raises(OSError, match="no space"):
        log.write_queued()
    assert released == [1, 1]
    assert [header.base_offset for header in bench.headers(log)] == [0]
    with pytest.raises(KafkaError):
        bench.append(log)
    bench.files.room = 1 << 30
    log.discard_unwritten()
    assert (log.log_end_offset, log.written_offset, log.flushed_offset) == (2, 2, 2)
    info = bench.append(log, 1, producer_id=7, producer_epoch=0, base_sequence=2)
    assert (info.base_offset, info.duplicate) == (2, False)
    log.sync()
    assert [header.base_offset for header in bench.headers(log)] == [0, 2]


def test_a_roll_that_found_no_room_leaves_no_hole(bench):
    """What could not be put in order at once is tried again before anything is written, however much room there is."""
    bench.files = Full()
    log = bench.open(LogConfig(segment_bytes=200, index_interval_bytes=0))
    bench.append(log, 1)
    log.sync()
    bench.files.room, count = 0, len(log.segments())
    while len(log.segments()) == count:
        bench.append(log, 1)
    end_offset = log.written_offset
    with pytest.raises(OSError, match="no space"):
        log.write_queued()
    bench.files.names = False
    with pytest.raises(OSError, match="no space"):
        log.discard_unwritten()
    bench.files.room, bench.files.names = 1 << 30, True
    with pytest.raises(OSError, match="no space"):
        log.write_queued()
    assert log.written_offset == end_offset
    log.discard_unwritten()
    assert (log.log_end_offset, log.written_offset) == (end_offset, end_offset)
    assert bench.append(log, 1).base_offset == end_offset
    log.sync()
    assert [header.base_offset for header in bench.headers(log)] == list(range(end_offset + 1))


def test_retention_makes_room_in_a_log_that_finds_none(bench):
    """Whole segments go while appends are refused; the one whose roll has failed stays."""
    bench.files = Full()
    log = bench.open(LogConfig(segment_bytes=200, index_interval_bytes=0))
    while len(log.segments()) < 3:
        bench.append(log, 1)
    log.sync()
    bench.files.room = 0
    while len(log.segments()) < 4:
        bench.append(log, 1)
    with pytest.raises(OSError, match="no space"):
        log.write_queued()
    assert log.delete_local_before(log.written_offset) == 2
    bench.files.room = 1 << 30
    log.discard_unwritten()
    bench.append(log, 1)
    log.sync()
    headers = [header.base_offset for header in bench.headers(log)]
    assert headers == list(range(log.log_start_offset, log.log_end_offset))


def test_a_producer_whose_first_batch_found_no_room_begins_with_it_again(bench):
    """Its second batch, sent before it knew, is out of order; of a producer in mid-stream any sequence is taken."""
    bench.files = Full()
    log = bench.open()
    bench.append(log)
    log.sync()
    bench.files.room = 0
    for producer_id, sequence in ((7, 0), (8, 5)):
        bench.append(log, 2, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    with pytest.raises(OSError, match="no space"):
        log.write_queued()
    bench.files.room = 1 << 30
    log.discard_unwritten()
    for refused in (2, 1):
        with pytest.raises(KafkaError) as failure:
            bench.append(log, 1, producer_id=7, producer_epoch=0, base_sequence=refused)
        assert failure.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0).duplicate
    assert not bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=2).duplicate
    assert not bench.append(log, 2, producer_id=8, producer_epoch=0, base_sequence=7).duplicate


def test_an_epoch_is_durable_before_anything_counts_as_flushed_behind_its_segment(bench):
    """In the active segment recovery finds it in the batches, wherever the recovery point is; below it the file tells."""
    checkpoint = Path(f"{bench.directory}/leader-epoch-checkpoint")
    log = bench.open()
    log.assign_leader_epoch(2)
    log.sync()
    assert not checkpoint.exists()  # nothing was written in it
    bench.append(log, epoch=2)
    log.write_queued()
    ticket = log.begin_sync()
    ticket.run()
    log.finish_sync(ticket)
    assert (log.flushed_offset, log.has_unsynced, checkpoint.exists()) == (1, False, False)
    log._begin_segment(1)
    bench.append(log, epoch=2)
    log.write_queued()
    ticket = log.begin_sync()
    ticket.run()
    log.finish_sync(ticket)
    assert (log.flushed_offset, checkpoint.read_text()) == (2, "0\n1\n2 0\n")
