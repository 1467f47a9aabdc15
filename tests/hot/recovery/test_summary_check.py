"""Tests of hot/recovery/summary_check.py: a summary costs time where it is wrong, never data."""

import os
import shutil
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.state.producer_state import AppendOrigin

CONFIG = LogConfig(index_interval_bytes=400, segment_bytes=3000)


def facts(bench, log: Log) -> dict[str, object]:
    """The whole summary of a log whose batches are all committed."""
    log.producer_state.on_high_watermark(log.log_end_offset)
    aborted = log.aborted_transactions(log.local_log_start_offset, log.log_end_offset) if log.log_end_offset else []
    return {
        "offsets": (log.log_start_offset, log.written_offset, log.log_end_offset),
        "segments": log.segments(),
        "epochs": log.leader_epochs.entries,
        "producers": log.producer_state.to_bytes(),
        "unstable": log.first_unstable_offset,
        "aborted": aborted,
        "headers": bench.headers(log),
        "rolls": [segment.roll_timestamp_ms for segment in log._segments][-1],
        "times": [
            bench.offset_for_timestamp(log, bench.now_ms - ago, max_offset=log.log_end_offset)
            for ago in range(0, 90, 9)
        ],
    }


@pytest.fixture
def stopped(bench):
    """A log of several segments that was closed in order, and its summary."""
    log = bench.open(CONFIG)
    bench.write_mixed(log, 40)
    return bench.stop(log)


def aside(bench) -> str:
    """A copy of the partition's directory: other inodes, so that nothing is believed of it."""
    target = Path(bench.directory).with_name("copy") / "flights-0"
    shutil.copytree(bench.directory, target)
    return str(target)


def as_read(bench, **options) -> dict[str, object]:
    """The facts of a copy that is opened without a summary; paths and times of files are as in the original."""
    kept, copied = bench.directory, aside(bench)
    for entry in Path(kept).iterdir():
        status = entry.stat()
        os.utime(f"{copied}/{entry.name}", ns=(status.st_atime_ns, status.st_mtime_ns))
    bench.directory = copied
    found = facts(bench, bench.open(CONFIG, **options))
    bench.directory = kept
    found["segments"] = [one._replace(path=one.path.replace(copied, kept)) for one in found["segments"]]
    return found


def forbid_opening(bench, monkeypatch) -> list[str]:
    """From now on every file that is opened is noted."""
    opened: list[str] = []
    for name in ("open_read", "open_append"):
        real = getattr(type(bench.files), name)
        monkeypatch.setattr(
            type(bench.files), name, lambda files, path, real=real: opened.append(path) or real(files, path)
        )
    return opened


def test_after_an_orderly_stop_nothing_is_opened(bench, monkeypatch):
    """The log is there at once; its files are opened when they are used."""
    log = bench.open(CONFIG)
    for _ in range(9):
        bench.append(log, 2)
    summary = bench.stop(log)
    expected = as_read(bench)
    opened = forbid_opening(bench, monkeypatch)
    log = bench.open(CONFIG, summary=summary, recovery_point=summary.end_offset)
    assert (opened, log.has_unsynced, log.flushed_offset) == ([], False, 18)
    assert facts(bench, log) == expected


@pytest.mark.parametrize("seed", range(8))
def test_a_log_opened_by_its_summary_is_the_log_that_its_files_say(bench, seed):
    """Offsets, epochs, producers, aborted transactions, look-ups; also after more was written, and over many stops."""
    summary = None
    for epoch in range(1, 5):
        log = bench.open(CONFIG, summary=summary)
        log.assign_leader_epoch(epoch)
        bench.write_mixed(log, 4 * seed if epoch % 2 else 3, epoch=epoch, seed=100 * seed + epoch)
        summary = bench.stop(log)
        assert summary is not None
        expected = as_read(bench)
        assert facts(bench, bench.open(CONFIG, summary=summary)) == expected
        shutil.rmtree(Path(bench.directory).with_name("copy"))


@pytest.mark.parametrize("seed", range(4))
def test_indexes_grow_as_if_there_had_been_no_stop(bench, seed):
    """Any reader of the directory, Kafka too, finds whole indexes after the next stop."""
    log = bench.open(CONFIG)
    bench.write_mixed(log, 5, seed=seed)
    summary = bench.stop(log)
    log = bench.open(CONFIG, summary=summary)
    bench.write_mixed(log, 5, seed=seed + 50)
    bench.stop(log)
    indexes = {path: path.read_bytes() for path in Path(bench.directory).glob("*index") if path.suffix != ".txnindex"}
    assert len(indexes) >= 2
    log = bench.open(CONFIG)
    for segment in log._segments:
        derived = segment.rebuild_indexes()
        derived.close()
        assert derived.offsets.to_bytes() == indexes[Path(segment.path(".index"))]
        assert derived.times.timestamps[-1:] == segment.indexes.times.timestamps[-1:]


def test_stray_snapshots_are_removed_with_the_summary(bench):
    """One for each segment, and one at the end."""
    summary = None
    for _ in range(5):
        log = bench.open(CONFIG, summary=summary)
        bench.append(log, 2)
        summary = bench.stop(log)
    assert [path.name for path in Path(bench.directory).glob("*.snapshot")] == [f"{10:020d}.snapshot"]


HARMS = {
    "a record more": lambda path: path("log").write_bytes(path("log").read_bytes() + b"torn"),
    "a byte less": lambda path: os.truncate(path("log"), path("log").stat().st_size - 1),
    "touched": lambda path: os.utime(path("log")),
    "another file of the same content": lambda path: replace_file(path("log")),
    "a flipped bit, the time put back": lambda path: flip(path("log")),
    "an older segment touched": lambda path: os.utime(min(path("log").parent.glob("*.log"))),
    "epochs by hand": lambda path: (path("log").parent / "leader-epoch-checkpoint").write_text("0\n1\n9 0\n"),
    "no epochs": lambda path: (path("log").parent / "leader-epoch-checkpoint").unlink(),
    "no snapshot": lambda path: path("snapshot").unlink(),
    "a snapshot that is none": lambda path: path("snapshot").write_bytes(b"x"),
    "another identity": lambda path: (path("log").parent / "partition.metadata").write_text("version: 0\ntopic_id: x"),
    "a swap": lambda path: (path("log").parent / f"{0:020d}.log.cleaned").touch(),
    "a segment more": lambda path: path("snapshot").with_suffix(".log").touch(),
}


def replace_file(path: Path) -> None:
    """Another file of the same content, as a backup that is copied back."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)


def flip(path: Path) -> None:
    """Change a byte, and set the time of the change to what it was."""
    status, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("harm", HARMS)
def test_changed_files_are_read(bench, stopped, harm, monkeypatch):
    """By whomever they were changed: the log is what it would be without a summary."""
    newest = {
        "log": max(Path(bench.directory).glob("*.log")),
        "snapshot": max(Path(bench.directory).glob("*.snapshot")),
    }
    HARMS[harm](newest.__getitem__)
    bench.cache.open_max = 1
    expected = as_read(bench, recovery_point=stopped.end_offset)
    opened = forbid_opening(bench, monkeypatch)
    log = bench.open(CONFIG, summary=stopped, recovery_point=stopped.end_offset)
    assert opened
    found = facts(bench, log)
    assert {key: found[key] for key in found if key != "segments"} == {
        key: expected[key] for key in expected if key != "segments"
    }


def test_a_directory_on_another_machine_is_read(bench, stopped, monkeypatch):
    """A copy has other inodes and times of change, whatever else was kept."""
    Path(bench.directory).rename(bench.directory + ".before")
    shutil.copytree(bench.directory + ".before", bench.directory)
    opened = forbid_opening(bench, monkeypatch)
    assert bench.open(CONFIG, summary=stopped).log_end_offset == stopped.end_offset
    assert opened


@pytest.mark.parametrize("clean", [True, False])
def test_the_summary_of_a_topic_of_the_same_name_is_void(bench, stopped, clean, monkeypatch):
    """Ids tell topics apart."""
    bench.topic_id = bytes(16)
    opened = forbid_opening(bench, monkeypatch)
    log = bench.open(CONFIG, clean=clean, summary=stopped, recovery_point=stopped.end_offset)
    assert opened
    assert clean or log.recovery.segments_checked == 1


def test_a_recovery_point_beyond_the_summary_shows_lost_records(bench, stopped):
    """A recovery point beyond its end says that it is old: what is missing is noticed."""
    log = bench.open(CONFIG, summary=stopped, recovery_point=stopped.end_offset + 5)
    assert log.recovery.resume_offset == log.log_end_offset == stopped.end_offset + 5


def test_a_log_with_unfinished_deletions_has_no_summary(bench):
    """A start has to see the work that it must finish."""
    log = bench.open(CONFIG)
    bench.fill(log, 2)
    log.delete_local_before(10)
    assert bench.stop(log) is None
    log = bench.open(CONFIG)
    assert bench.stop(log) is not None


def test_a_log_that_failed_has_no_summary(bench):
    """The content of its files is unknown."""
    log = bench.open(CONFIG)
    bench.append(log)
    assert log.summary() is None
    log.sync()
    log.tail.failed = OSError("lost")
    assert log.summary() is None


# -- after a kill -----------------------------------------------------------------------------------------------


def killed(bench, log: Log) -> None:
    """The process ends: what was written is in the files, and nothing else."""
    for segment in log._segments:
        segment.release()


@pytest.mark.parametrize("seed", range(8))
def test_after_a_kill_only_what_is_new_is_verified(bench, seed):
    """And the log is the one that a verification of everything finds, also after a second kill."""
    log = bench.open(CONFIG)
    bench.write_mixed(log, 30, seed=seed)
    summary = bench.stop(log)
    for epoch in (2, 3):
        log = bench.open(CONFIG, clean=epoch == 2, summary=summary, recovery_point=summary.end_offset)
        log.assign_leader_epoch(epoch)
        bench.write_mixed(log, seed // 2, epoch=epoch, seed=seed + 50 * epoch)
        killed(bench, log)
        expected = as_read(bench, clean=False, recovery_point=summary.end_offset)
        found = bench.open(CONFIG, clean=False, summary=summary, recovery_point=summary.end_offset)
        assert facts(bench, found) == expected
        assert found.flushed_offset == summary.end_offset
        killed(bench, found)
        shutil.rmtree(Path(bench.directory).with_name("copy"))


def test_after_a_kill_nothing_is_read_of_what_was_synced(bench):
    """A read finds damage there, as in every older segment; the part behind it is verified."""
    log = bench.open()
    for _ in range(30):
        bench.append(log, 2)
    summary = bench.stop(log)
    log = bench.open(summary=summary)
    bench.append(log, 2, epoch=2)
    log.write_queued()
    killed(bench, log)
    read = []
    real = type(bench.files).open_append
    files = type("Counting", (type(bench.files),), {"open_append": lambda self, path: Counted(real(self, path), read)})
    bench.files = files()
    log = bench.open(clean=False, summary=summary, recovery_point=60)
    assert (log.log_end_offset, log.recovery.segments_checked) == (62, 1)
    assert sum(read) < 61 + 2 * len(bench.batch(2))
    assert log.recovery.indexes_rebuilt == []


class Counted:
    """A file that notes how much is read of it."""

    def __init__(self, file, read: list[int]) -> None:
        self._file = file
        self._read = read

    def pread(self, length: int, position: int) -> bytes:
        data = self._file.pread(length, position)
        self._read.append(len(data))
        return data

    def __getattr__(self, name: str):
        return getattr(self._file, name)


def test_an_idle_log_needs_no_sync_after_a_kill(bench, stopped, monkeypatch):
    """No batch came since the stop, so opening verifies nothing and waits for no disk."""
    log = bench.open(CONFIG, clean=False, summary=stopped, recovery_point=stopped.end_offset)
    assert log.recovery.segments_checked == 0
    assert (log.has_unsynced, log.flushed_offset) == (False, stopped.end_offset)


@pytest.mark.parametrize("cut", [1, 61, 150])
def test_a_torn_tail_behind_the_known_part_is_cut_off(bench, stopped, cut):
    """As ever."""
    log = bench.open(CONFIG, summary=stopped)
    bench.append(log, 2, epoch=2)
    log.write_queued()
    killed(bench, log)
    tail = max(Path(bench.directory).glob("*.log"))
    os.truncate(tail, tail.stat().st_size - cut)
    log = bench.open(CONFIG, clean=False, summary=stopped, recovery_point=stopped.end_offset)
    assert (log.log_end_offset, log.recovery.damaged_offset) == (stopped.end_offset, None)
    assert log.recovery.truncated_bytes > 0
    assert bench.append(log, 2, epoch=3).base_offset == stopped.end_offset


def test_damage_behind_the_known_part_goes_to_quarantine(bench, stopped):
    """As ever."""
    log = bench.open(CONFIG, summary=stopped)
    for _ in range(2):
        bench.append(log, 1, epoch=2)
        log.write_queued()
    killed(bench, log)
    tail = max(Path(bench.directory).glob("*.log"))
    data = bytearray(tail.read_bytes())
    data[stopped.files[tail.name].size_bytes + 70] ^= 1
    tail.write_bytes(data)
    log = bench.open(CONFIG, clean=False, summary=stopped, recovery_point=stopped.end_offset)
    assert log.recovery.damaged_offset == log.log_end_offset == stopped.end_offset
    assert facts(bench, log)["headers"][-1].next_offset == stopped.end_offset


LIES = {
    "shorter than it was": lambda bench, tail: os.truncate(tail, 100),
    "another file": lambda bench, tail: replace_file(tail),
    "other batches": lambda bench, tail: reverse(tail),
    "no snapshot": lambda bench, tail: max(Path(bench.directory).glob("*.snapshot")).unlink(),
    "another snapshot": lambda bench, tail: os.utime(max(Path(bench.directory).glob("*.snapshot")), ns=(1, 1)),
}


def reverse(path: Path) -> None:
    """The same file, with another history in it."""
    path.write_bytes(path.read_bytes()[::-1])


@pytest.mark.parametrize("lie", LIES)
def test_a_changed_segment_is_verified_as_a_whole(bench, stopped, lie):
    """The summary is believed in nothing then."""
    tail = max(Path(bench.directory).glob("*.log"))
    LIES[lie](bench, tail)
    expected = as_read(bench, clean=False, recovery_point=stopped.end_offset)
    log = bench.open(CONFIG, clean=False, summary=stopped, recovery_point=stopped.end_offset)
    assert log.recovery.segments_checked == 1
    assert log.recovery.indexes_rebuilt != []
    assert facts(bench, log)["headers"] == expected["headers"]
    assert facts(bench, log)["producers"] == expected["producers"]


@pytest.mark.parametrize("again", [0, 3, 30])
def test_a_log_that_was_cut_below_the_known_part_is_verified_as_a_whole(bench, again):
    """Also when other batches stand there now, up to the very same end and beyond."""
    log = bench.open()
    for _ in range(20):
        bench.append(log, 2)
    summary = bench.stop(log)
    log = bench.open(summary=summary)
    log.truncate_to(30)
    for _ in range(again):
        bench.append(log, 2, epoch=2, value=b"w" * 100)
    log.write_queued()
    killed(bench, log)
    log = bench.open(clean=False, summary=summary, recovery_point=30)
    assert log.log_end_offset == 30 + 2 * again
    assert log.recovery.indexes_rebuilt == [0]
    killed(bench, log)
    log = bench.open(clean=False, summary=summary, recovery_point=log.log_end_offset)
    assert (log.log_end_offset, log.recovery.damaged_offset) == (30 + 2 * again, None)
    assert {header.partition_leader_epoch for header in bench.headers(log, 30)} <= {2}


def test_the_recovery_point_must_reach_the_known_part(bench, stopped):
    """A checkpoint that was lost says that nothing is known to be durable, an older one that not all of it is."""
    for point in (0, stopped.active.base_offset, stopped.end_offset - 1):
        log = bench.open(CONFIG, clean=False, summary=stopped, recovery_point=point)
        assert log.recovery.segments_checked == (1 if point else len(log._segments))
        assert stopped.active.base_offset in log.recovery.indexes_rebuilt
        killed(bench, log)


def test_lost_flushed_offsets_behind_the_known_part_are_not_given_again(bench, stopped):
    """An empty batch stands for them, and is synced with the first cycle."""
    point = stopped.end_offset + 3
    log = bench.open(CONFIG, clean=False, summary=stopped, recovery_point=point)
    assert log.recovery.resume_offset == log.log_end_offset == point
    assert log.has_unsynced
    log.sync()
    assert bench.headers(log)[-1].next_offset == point


def test_a_transaction_index_that_lost_its_known_part_is_derived(bench):
    """Aborted transactions stay aborted."""
    log = bench.open()
    for sequence in range(3):
        batch = bench.batch(1, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
        log.append_as_leader(batch, leader_epoch=1, now_ms=bench.now_ms)
        log.append_as_leader(
            bench.marker(commit=False), leader_epoch=1, now_ms=bench.now_ms, origin=AppendOrigin.COORDINATOR
        )
    log.write_queued()
    expected = log.aborted_transactions(0, 6)
    summary = bench.stop(log)
    path = Path(f"{bench.directory}/{0:020d}.txnindex")
    path.write_bytes(path.read_bytes()[:34] + bytes(68))
    for clean in (True, False):
        log = bench.open(clean=clean, summary=summary, recovery_point=6)
        assert log.aborted_transactions(0, 6) == expected
        killed(bench, log)
