"""Tests of hot/log/start.py."""

import errno

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.wire.errors import ErrorCode, KafkaError


def test_the_local_log_start_moves_before_the_files_go(bench, log, monkeypatch):
    """A reader that comes in between gets the true start."""
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
        return [int(name[:20]) for name in bench.names() if name.endswith(".log")]

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
    assert not [name for name in bench.names() if name.endswith(".deleted")]


@pytest.mark.parametrize("end", ["ticks", "kill", "stop"])
def test_many_segments_leave_a_few_at_a_time(bench, monkeypatch, end):
    """Each name costs a sync of the directory: a thousand would stop the loop for seconds. Readers have the new start at once."""
    log = bench.open()
    bench.fill(log, 40, per_segment=1)
    log.sync()
    syncs = []
    real = type(bench.files).sync_directory
    monkeypatch.setattr(type(bench.files), "sync_directory", lambda *one: syncs.append(one) or real(*one))

    def stored() -> list[int]:
        return [int(name[:20]) for name in bench.names() if name.endswith(".log")]

    assert log.delete_local_before(70) == 35
    assert (log.log_start_offset, log.first_base_offset) == (70, 70)
    assert stored() == list(range(8, 82, 2))
    assert log.start.is_leaving
    if end == "ticks":
        for _ in range(8):
            syncs.clear()
            log.take_removal(bench.now_ms)
            assert len(syncs) <= 4
        assert stored() == list(range(70, 82, 2))
        return
    log.take_removal(bench.now_ms)
    summary = bench.stop(log) if end == "stop" else None
    again = bench.open(clean=end == "stop", recovery_point=80, log_start_offset=70, summary=summary)
    assert (again.log_start_offset, again.log_end_offset, again.recovery.missing) == (70, 80, [])
    assert again.delete_local_before(70) == 27
    again.start.finish_leaving()
    assert stored() == list(range(70, 82, 2))


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


def test_the_first_unstable_offset_is_never_below_the_log_start(bench):
    """DeleteRecords may pass an open transaction."""
    log = bench.open()
    bench.append(log, 5, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.write_queued()
    log.advance_log_start(3)
    assert log.first_unstable_offset == 3


def test_retention_removes_segments_while_the_disk_is_full(bench, full_disk):
    """Whole segments go while appends are refused; the one whose roll has failed stays."""
    bench.files = full_disk
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


def test_producers_are_known_after_a_kill_while_segments_leave(bench):
    """The next start reads from the recovery point on, which may lie below the log start: it needs the snapshot of before that."""
    log = bench.open()
    bench.append(log, 1, producer_id=4, producer_epoch=3, base_sequence=0)
    for _ in range(40):
        log.roll()
        bench.append(log, 2, producer_id=5, producer_epoch=0, base_sequence=log.log_end_offset - 1)
    log.sync()
    assert log.delete_local_before(70) == 35
    assert log.start.is_leaving
    before = sorted(log.producer_state.entries)
    again = bench.open(clean=False, recovery_point=20, log_start_offset=70)
    assert sorted(again.producer_state.entries) == before == [4, 5]
