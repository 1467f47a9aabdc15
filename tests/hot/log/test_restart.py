"""Tests of hot/log/restart.py."""

import errno
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.log.snapshots import ProducerSnapshots
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.errors import Corrupt
from tests.hot.conftest import LogBench


def test_a_restart_takes_history_and_log_start_of_the_archive(bench, log):
    """With the history and the producers of an archive; the log start is the archive's."""
    epochs = [EpochEntry(1, 0), EpochEntry(5, 400)]
    snapshot = log.producer_state.to_bytes()
    log.truncate_fully_and_start_at(500, epochs, snapshot, log_start_offset=100)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (100, 500, 500)
    assert log.leader_epochs.entries == (EpochEntry(1, 100), EpochEntry(5, 400))
    assert bench.append(log, 2, epoch=6).base_offset == 500
    log.close()
    log = bench.open(LogConfig(remote_storage_enable=True), log_start_offset=100)
    assert [segment.base_offset for segment in log.segments()] == [500]
    assert log.leader_epochs.entries == (EpochEntry(1, 100), EpochEntry(5, 400), EpochEntry(6, 500))


def test_a_restart_with_a_corrupt_snapshot_changes_nothing(log):
    """It is read before anything is removed."""
    with pytest.raises(Corrupt):
        log.truncate_fully_and_start_at(500, [], b"nonsense")
    assert log.log_end_offset == 30


def test_a_copy_that_begins_behind_a_producers_batches_takes_its_next_ones(bench, log):
    """It has the marker alone, and leads next, before or after a restart. The transaction of then was refused for good."""
    log.truncate_fully_and_start_at(500, [], None, log_start_offset=500)
    marker, origin = bench.marker(commit=True), AppendOrigin.COORDINATOR
    log.append_as_leader(marker, leader_epoch=1, now_ms=bench.now_ms, origin=origin)
    log.sync()
    for sequence in (40, 42):
        log.close()
        log = bench.open(clean=False, log_start_offset=500)
        options = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
        assert not bench.append(log, 2, base_sequence=sequence, **options).duplicate
        log.sync()


def test_quarantine_keeps_every_file_aside(bench, log, tmp_path):
    """The archive wins, but nothing is deleted."""
    kept = log.quarantine_and_restart_at(500, [], None, now_ms=7, reason="the archive ends at 500")
    assert kept == f"{tmp_path}/flights-0.{7:032x}-stray"
    inside = sorted(entry.name for entry in Path(kept).iterdir())
    assert [name for name in inside if name.endswith(".log")] == [f"{base:020d}.log" for base in (0, 10, 20, 30)]
    assert "quarantine.json" in inside
    assert [name for name in bench.names() if name.endswith(".log")] == [f"{500:020d}.log"]
    assert bench.append(log).base_offset == 500


class Shortage(RealFilesystem):
    """A disk that has no room for the name or the sync of one call, and all others."""

    left: int | None = None
    """So many calls before that one."""
    number = errno.ENOSPC

    def _count(self):
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise OSError(self.number, "no space left")

    def open_append(self, path):
        self._count()
        return super().open_append(path)

    def rename(self, source, target):
        self._count()
        super().rename(source, target)

    def sync_directory(self, path):
        self._count()
        super().sync_directory(path)


@pytest.mark.parametrize("kept", [False, True], ids=["removed", "kept aside"])
@pytest.mark.parametrize("offset", [500, 10], ids=["at a new name", "at the name of an old segment"])
def test_a_restart_that_found_no_room_is_carried_out_again(tmp_path, offset, kept):
    """It may stop at any call. A copy would not get in sync again otherwise until the broker's next start."""

    def stopped_at(calls):
        """Whether there are so many calls."""
        bench = LogBench(str(tmp_path / str(calls)))
        Path(bench.directory).parent.mkdir()
        bench.files = Shortage()
        log = bench.open()
        bench.fill(log, 3)
        log.sync()
        bench.files.left = calls
        restart = log.truncate_fully_and_start_at
        if kept:
            restart = partial(log.quarantine_and_restart_at, now_ms=7, reason="the archive wins")
        try:
            restart(offset, [EpochEntry(7, 0)], None, log_start_offset=0)
        except OSError:
            restart(offset, [EpochEntry(7, 0)], None, log_start_offset=0)
        was_stopped, bench.files.left = bench.files.left is None, None
        assert (log.local_log_start_offset, log.log_end_offset) == (offset, offset)
        assert bench.append(log, 2, epoch=7).base_offset == offset
        log.close()
        log = bench.open(LogConfig(remote_storage_enable=True), clean=False, log_start_offset=0)
        assert (log.local_log_start_offset, log.log_end_offset) == (offset, offset + 2)
        return was_stopped

    calls = 0
    while stopped_at(calls):
        calls += 1
    assert calls > 5


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_a_log_that_has_begun_anew_is_put_in_order_where_it_is(tmp_path, monkeypatch, number):
    """It had its new place, so it was not begun anew again, and took no append until the next start of its broker.

    Its producers are known, also after that start.
    """
    monkeypatch.setattr(ProducerSnapshots, "store_ahead", lambda *_: False)  # there was no room ahead, either

    def stopped_at(calls):
        """Whether there are so many calls."""
        bench = LogBench(str(tmp_path / str(calls)))
        Path(bench.directory).parent.mkdir()
        bench.files = Shortage()
        bench.files.number = number
        log = bench.open()
        bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0)
        log.sync()
        bench.files.left = calls
        with suppress(OSError):
            log.truncate_fully_and_start_at(500, [EpochEntry(1, 0)], log.producer_state.to_bytes(), log_start_offset=0)
            if number == errno.EMFILE:  # a sync that the disk has refused takes it offline
                log.sync()
        was_stopped, bench.files.left = bench.files.left is None, None
        if log.log_end_offset == 500:
            if log.tail.failed is not None:
                log.discard_unwritten()
            assert log.producer_state.entries[7].last_sequence == 1
            assert bench.append(log, 2).base_offset == 500
            log.sync()
            assert log.flushed_offset == 502
            log.abandon()
            again = bench.open(LogConfig(remote_storage_enable=True), clean=False, log_start_offset=0)
            assert again.producer_state.entries[7].last_sequence == 1
            reached.append(calls)
        return was_stopped

    calls, reached = 0, []
    while stopped_at(calls):
        calls += 1
    assert len(reached) > 2


def test_a_restart_drops_batches_that_found_no_room(bench, full_disk):
    """They would have gone with all others."""
    bench.files = full_disk
    log = bench.open()
    bench.fill(log, 1)
    full_disk.room = 0
    bench.append(log, 1)
    with pytest.raises(OSError, match="no space"):
        log.write_queued()
    log.truncate_fully_and_start_at(500, [], None)
    full_disk.room = 1 << 20
    assert bench.append(log, 1).base_offset == 500
    log.sync()
    assert log.flushed_offset == 501


def test_a_closed_log_does_not_begin_anew(log):
    """Its files are another log's by now."""
    log.close()
    with pytest.raises(OSError, match="closed"):
        log.truncate_fully_and_start_at(500, [], None)


class Dying(RealFilesystem):
    """It ends the broker behind one of its syncs of a directory."""

    left = 1 << 30

    def sync_directory(self, path):
        super().sync_directory(path)
        self.left -= 1
        if self.left < 0:
            raise InterruptedError


@pytest.mark.parametrize("left", range(8))
def test_a_kill_while_a_log_begins_anew_loses_nothing_that_counts(bench, left):
    """Some of the old segments are there, and a gap behind them: the replica is copied again, and reports no loss."""
    bench.files = Dying()
    log = bench.open()
    bench.fill(log, 3)
    log.sync()
    bench.files.left = left
    with suppress(InterruptedError):
        log.truncate_fully_and_start_at(100, (), None)
    bench.files = RealFilesystem()
    again = bench.open(clean=False, recovery_point=30, durable_end=30, others_have_it=True)
    assert not again.recovery.has_lost_flushed
    assert again.missing_ranges() == []
    assert again.log_end_offset in {0, 10, 20, 30, 100}
