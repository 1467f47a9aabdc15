"""Tests of hot/log/sync_cycles.py."""

import errno
import os
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.wire.errors import ErrorCode, KafkaError


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
    """Bytes appended in the place of the rest were written after the files were handed over."""
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
    log.tail.begin_segment(1)
    bench.append(log, epoch=2)
    log.write_queued()
    ticket = log.begin_sync()
    ticket.run()
    log.finish_sync(ticket)
    assert (log.flushed_offset, checkpoint.read_text()) == (2, "0\n1\n2 0\n")


def test_a_flush_is_due_by_what_is_written_and_not_synced_or_after_a_roll(bench):
    """flush.messages counts offsets; the segment before the active one is to be durable soon."""
    log = bench.open(LogConfig(flush_messages=3))
    for due in (False, False, True):
        bench.append(log)
        log.write_queued()
        assert log.flush_due is due
    log.sync()
    assert not log.flush_due
    bench.append(log)
    log.roll()
    assert log.flush_due
    log.sync()
    assert not log.flush_due


def test_a_recovery_point_above_a_truncation_is_void_until_a_new_one_is_stored(bench, log):
    """A crash right after a follower's truncation does not read as lost data."""
    log.truncate_to(12)
    log.abandon()
    log = bench.open(clean=False, recovery_point=30)
    assert (log.log_end_offset, log.recovery.damaged_offset) == (12, None)
    log.cycles.checkpoints_stored(log.cycles.noted_cut)
    assert log.cycles.noted_cut is None
    assert "truncation-checkpoint" not in bench.names()
