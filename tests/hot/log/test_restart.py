"""Tests of hot/log/restart.py."""

from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.wire.errors import Corrupt


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


def test_quarantine_keeps_every_file_aside(bench, log, tmp_path):
    """The archive wins, but nothing is deleted."""
    kept = log.quarantine_and_restart_at(500, [], None, now_ms=7, reason="the archive ends at 500")
    assert kept == f"{tmp_path}/flights-0.{7:032x}-stray"
    inside = sorted(entry.name for entry in Path(kept).iterdir())
    assert [name for name in inside if name.endswith(".log")] == [f"{base:020d}.log" for base in (0, 10, 20, 30)]
    assert "quarantine.json" in inside
    assert [name for name in bench.names() if name.endswith(".log")] == [f"{500:020d}.log"]
    assert bench.append(log).base_offset == 500
