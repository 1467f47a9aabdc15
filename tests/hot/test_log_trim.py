"""Tests of hot/log_trim.py."""

import errno
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.leader_epochs import EpochEntry
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError


@pytest.fixture
def log(bench):
    """Segments [0,10) [10,20) [20,30) and an empty active one."""
    log = bench.open()
    bench.fill(log, 3)
    log.sync()
    return log


def names(log) -> list[str]:
    return sorted(entry.name for entry in Path(log.directory).iterdir())


def test_the_local_log_start_moves_before_the_files_go(bench, log, monkeypatch):
    """A reader that comes in between is told the truth."""
    seen = []
    real = type(bench.files).rename

    def rename(files, source, target):
        seen.append(log.local_log_start_offset)
        real(files, source, target)

    monkeypatch.setattr(type(bench.files), "rename", rename)
    assert log.delete_local_before(25) == 2
    assert set(seen) == {20}
    assert log.local_log_start_offset == log.log_start_offset == 20
    assert [segment.base_offset for segment in log.segments()] == [20, 30]


@pytest.mark.parametrize(("call", "left"), [("rename", 2), ("rename", 6), ("sync_directory", 0), ("sync_directory", 1)])
@pytest.mark.parametrize("restart", [False, True])
def test_an_interrupted_deletion_is_completed_before_the_next(bench, log, monkeypatch, call, left, restart):
    """For want of a descriptor it may stop anywhere: what is left on the disk never has a hole."""
    real, calls = getattr(type(bench.files), call), []

    def scarce(files, *arguments):
        if len(calls) == left:
            raise OSError(errno.EMFILE, "too many open files")
        calls.append(arguments)
        real(files, *arguments)

    def stored() -> list[int]:
        return [int(name[:20]) for name in names(log) if name.endswith(".log")]

    monkeypatch.setattr(type(bench.files), call, scarce)
    with pytest.raises(OSError, match="too many"):
        log.delete_local_before(30)
    assert stored() in ([0, 10, 20, 30], [10, 20, 30], [20, 30], [30])
    left = -1
    if restart:
        log.truncate_fully_and_start_at(50, (), None)
    else:
        log.delete_local_before(0)
    assert stored() == ([50] if restart else [30])
    assert log.take_removal(bench.now_ms) is None
    removal = log.take_removal(bench.now_ms + 60_000)
    assert removal is not None
    removal.run()
    assert not [name for name in names(log) if name.endswith(".deleted")]


def test_a_segment_that_comes_back_after_a_crash_has_its_indexes(bench, log):
    """They are renamed when it is durable that its log has gone: which transactions were aborted stands nowhere else."""
    index, path = f"{0:020d}.index", f"{0:020d}.log"
    log.delete_local_before(10)
    assert {index, path + ".deleted"} <= set(names(log))
    assert log.take_removal(bench.now_ms) is None
    assert index in names(log)
    log.sync()
    assert log.take_removal(bench.now_ms) is None
    assert {index + ".deleted", path + ".deleted"} <= set(names(log))
    removals = [log.take_removal(bench.now_ms + delay_ms) for delay_ms in (60_000, 120_000)]
    for removal in removals:
        if removal is not None:
            removal.run()
    assert not [name for name in names(log) if name.startswith(f"{0:020d}") and "snapshot" not in name]


def test_a_closed_log_leaves_no_index_without_a_log(log):
    """However short a time ago its segment has left: Kafka's tools take such an index for one of the log."""
    log.delete_local_before(10)
    log.close()
    assert {f"{0:020d}{suffix}.deleted" for suffix in (".log", ".index", ".timeindex")} <= set(names(log))
    assert not [name for name in names(log) if name.startswith(f"{0:020d}.") and not name.endswith(".deleted")]


def test_files_are_renamed_first_and_unlinked_after_the_delay(bench, log):
    """file.delete.delay.ms counts from the first time somebody asks; what was given out is not given out again."""
    log.delete_local_before(10)
    assert f"{0:020d}.log.deleted" in names(log)
    assert f"{0:020d}.log" not in names(log)
    assert log.take_removal(bench.now_ms) is None
    assert log.take_removal(bench.now_ms + 59_999) is None
    removal = log.take_removal(bench.now_ms + 60_000)
    assert removal is not None
    assert log.take_removal(bench.now_ms + 120_000) is None
    assert f"{0:020d}.log.deleted" in names(log)
    removal.run()
    removal.run()  # gone already is fine
    assert not [name for name in names(log) if name.endswith(".deleted")]


def test_only_whole_segments_below_the_offset_go_and_never_the_active_one(log):
    """One offset short keeps the segment."""
    assert log.delete_local_before(9) == 0
    assert log.delete_local_before(10**9) == 3
    assert [(segment.base_offset, segment.active) for segment in log.segments()] == [(30, True)]
    assert log.log_end_offset == 30


def test_a_tiered_log_keeps_its_log_start_when_local_segments_go(bench):
    """Only the local start moves; the epochs of archived data stay known."""
    log = bench.open(LogConfig(remote_storage_enable=True))
    bench.fill(log, 2)
    log.delete_local_before(10)
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 10)
    assert log.leader_epochs.entries == (EpochEntry(1, 0),)
    log.close()
    log = bench.open(LogConfig(remote_storage_enable=True))
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 10)


def test_deleted_records_are_out_of_range_at_once(log):
    """DeleteRecords moves the log start inside a segment; it never goes back, nor beyond the end."""
    assert log.advance_log_start(13)
    assert not log.advance_log_start(12)
    assert (log.log_start_offset, log.local_log_start_offset) == (13, 13)
    with pytest.raises(KafkaError) as caught:
        log.read(12, max_bytes=10, max_offset=30)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(KafkaError):
        log.advance_log_start(31)
    assert log.leader_epochs.entries == (EpochEntry(1, 13),)


def test_starting_over_elsewhere(bench, log):
    """With the history and the producers of an archive; the log start is the archive's."""
    epochs = [EpochEntry(1, 0), EpochEntry(5, 400)]
    snapshot = log.producer_state.to_bytes()
    log.truncate_fully_and_start_at(500, epochs, snapshot, log_start_offset=100)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (100, 500, 500)
    assert log.leader_epochs.entries == tuple(epochs)
    assert bench.append(log, 2, epoch=6).base_offset == 500
    log.close()
    log = bench.open(LogConfig(remote_storage_enable=True), log_start_offset=100)
    assert [segment.base_offset for segment in log.segments()] == [500]
    assert log.leader_epochs.entries == (EpochEntry(1, 100), EpochEntry(5, 400), EpochEntry(6, 500))


def test_a_bad_snapshot_changes_nothing(log):
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
    assert [name for name in names(log) if name.endswith(".log")] == [f"{500:020d}.log"]
    assert bench.append(log).base_offset == 500


def test_a_snapshot_of_the_producers_at_any_border(bench):
    """For the end of an archived range: the last snapshot and the log behind it."""
    from stratalog.hot.producer_snapshot import snapshot_from_bytes

    log = bench.open()
    for sequence in range(6):
        bench.append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
        if sequence % 2:
            log.roll()
    for offset in range(1, 7):
        (entry,) = snapshot_from_bytes(log.producer_snapshot_at(offset))
        assert entry.last_sequence == offset - 1
    assert snapshot_from_bytes(log.producer_snapshot_at(0)) == []
