"""Tests of hot/directory.py."""

import contextlib
import os
from pathlib import Path

import pytest

from stratalog.hot.cleaner_offsets import note_cleaner_offset
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.leaving_logs import doom_partition
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.checkpoint import MetaProperties, RemoteLogState
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

FLIGHTS, ORDERS = TopicPartition("flights", 0), TopicPartition("orders.v-2", 13)
IDS = {FLIGHTS: bytes(range(16)), ORDERS: bytes(range(1, 17))}


@pytest.fixture
def root(tmp_path) -> str:
    return str(tmp_path / "logs")


def open_all(directory, config=LogConfig(), cache=None):  # noqa: B008 - it is immutable
    """Every log whose topic is known."""
    return {
        name: directory.open_log(name, found.topic_id, config, now_ms=1, cache=cache)
        for name, found in directory.partitions.items()
        if found.topic_id is not None
    }


def filled(root, files):
    """Two logs of three records each."""
    directory = LogDirectory.load(root, files)
    logs = {}
    for partition, topic_id in IDS.items():
        logs[partition] = log = directory.open_log(partition, topic_id, LogConfig(), now_ms=1)
        for _ in range(3):
            log.append_as_leader(build_batch([Record(0, 1, None, b"v")]), leader_epoch=1, now_ms=1)
        log.sync()
    return directory, logs


def test_a_restart_finds_every_log(root, files):
    """After a clean stop nothing is verified; the mark is gone at once."""
    directory, logs = filled(root, files)
    directory.close(logs, broker_epoch=9)
    again = LogDirectory.load(root, files)
    assert (again.clean, again.clean_broker_epoch) == (True, 9)
    assert {found.topic_partition: found.topic_id for found in again.partitions.values()} == IDS
    assert again.recovery_points == {FLIGHTS: 3, ORDERS: 3}
    opened = open_all(again)
    assert [log.log_end_offset for log in opened.values()] == [3, 3]
    assert [log.recovery.segments_checked for log in opened.values()] == [0, 0]
    assert not LogDirectory.load(root, files).clean


def test_without_the_mark_every_log_is_verified(root, files):
    """From its recovery point on."""
    directory, logs = filled(root, files)
    directory.write_checkpoints(logs)
    again = LogDirectory.load(root, files)
    assert not again.clean
    assert [log.recovery.segments_checked for log in open_all(again).values()] == [1, 1]


def test_an_offline_marker_drops_the_cache_and_verifies_from_the_disk(root, files, monkeypatch):
    """Also over a mark of a clean shutdown, until it is cleared."""
    directory, logs = filled(root, files)
    directory.mark_offline("fdatasync: EIO")
    directory.close(logs, broker_epoch=9)
    dropped = []
    real = os.posix_fadvise
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: dropped.append(arguments) or real(*arguments))
    again = LogDirectory.load(root, files)
    assert again.was_offline
    assert not again.clean
    assert {arguments[3] for arguments in dropped} == {os.POSIX_FADV_DONTNEED}
    assert [log.recovery.segments_checked for log in open_all(again).values()] == [1, 1]
    again.clear_offline()
    assert not LogDirectory.load(root, files).was_offline


def test_a_damaged_checkpoint_costs_only_time(root, files):
    """The logs are verified from the start."""
    directory, logs = filled(root, files)
    directory.close(logs, broker_epoch=9)
    Path(f"{root}/{checkpoint.RECOVERY_POINTS}").write_text("garbage")
    again = LogDirectory.load(root, files)
    assert again.damaged_checkpoints == [checkpoint.RECOVERY_POINTS]
    assert not again.clean
    assert [log.log_end_offset for log in open_all(again).values()] == [3, 3]


def test_unknown_names_are_left_alone_and_reported(root, files):
    """An unknown directory is not deleted."""
    directory, logs = filled(root, files)
    directory.close(logs, broker_epoch=9)
    for name in ("lost+found", "notes", f"flights-0.{7:032x}-stray"):
        Path(f"{root}/{name}").mkdir()
    Path(f"{root}/README").write_text("mine")
    again = LogDirectory.load(root, files)
    assert again.unknown == ["README", "lost+found", "notes"]
    assert len(again.partitions) == 2
    assert Path(f"{root}/README").exists()


def test_a_partition_that_is_not_opened_keeps_its_recovery_point(root, files):
    """Metadata may not know it yet; its checkpoint is written again as it was."""
    directory, logs = filled(root, files)
    directory.close(logs, broker_epoch=9)
    again = LogDirectory.load(root, files)
    again.write_checkpoints({ORDERS: again.open_log(ORDERS, IDS[ORDERS], LogConfig(), now_ms=1)})
    assert LogDirectory.load(root, files).recovery_points == {FLIGHTS: 3, ORDERS: 3}


def test_a_partition_with_an_unreadable_topic_id_is_found_without_one(root, files):
    """The broker decides; it is not opened by guess."""
    directory, logs = filled(root, files)
    directory.close(logs, broker_epoch=9)
    Path(f"{root}/flights-0/partition.metadata").write_text("?")
    again = LogDirectory.load(root, files)
    assert [found.topic_id for found in again.partitions.values()] == [None, IDS[ORDERS]]
    assert list(open_all(again)) == [ORDERS]


def test_a_directory_has_the_owner_that_was_written(root, files):
    """None at first, then what was written; never a guess."""
    directory = LogDirectory.load(root, files)
    assert directory.owner is None
    owner = MetaProperties("cluster", 1, bytes(range(16)))
    checkpoint.write_meta_properties(files, root, owner)
    checkpoint.write_remote_log(files, root, {FLIGHTS: RemoteLogState(0, 5, 6)})
    directory.write_high_watermarks({FLIGHTS: 4})
    again = LogDirectory.load(root, files)
    assert again.owner == owner
    assert again.remote_logs == {FLIGHTS: RemoteLogState(0, 5, 6)}
    assert again.high_watermarks == {FLIGHTS: 4}
    Path(f"{root}/meta.properties").write_text("version=7\n")
    with pytest.raises(Corrupt):
        LogDirectory.load(root, files)


def open_files(root: str) -> list[str]:
    """The files below ``root`` that this process has open, whatever else it opens and closes meanwhile."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(descriptor.readlink()))
    return [path for path in found if path.startswith(root)]


def test_many_partitions_open_cheaply_after_a_clean_stop(root, files):
    """No descriptor stays open and no index is loaded for logs that are not in use."""
    directory = LogDirectory.load(root, files)
    logs = {}
    for number in range(40):
        partition = TopicPartition("wide", number)
        logs[partition] = log = directory.open_log(partition, bytes(16), LogConfig(segment_bytes=200), now_ms=1)
        for _ in range(3):
            log.append_as_leader(build_batch([Record(0, 1, None, bytes(100))]), leader_epoch=1, now_ms=1)
        log.write_queued()
    directory.close(logs, broker_epoch=1)
    cache = SegmentCache()
    again = LogDirectory.load(root, files)
    opened = open_all(again, LogConfig(segment_bytes=200), cache)
    assert len(opened) == 40
    assert {len(log._segments) for log in opened.values()} == {3}
    assert open_files(root) == []
    assert cache.held_count == 0
    cache.open_max = 10
    assert {log.segments()[-1].max_timestamp_ms for log in opened.values()} == {1}
    assert {log.read(2, max_bytes=1, max_offset=3).next_offset for log in opened.values()} == {3}
    assert 0 < len(open_files(root)) <= 10


def test_a_log_that_waits_for_its_sync_holds_one_descriptor(root, files):
    """Four writes hold one descriptor, though the cache lets go of it each time; a synced log holds none."""
    cache = SegmentCache(open_max=1)
    directory = LogDirectory.load(root, files)
    logs = [
        directory.open_log(TopicPartition("wide", number), bytes(16), LogConfig(), now_ms=1, cache=cache)
        for number in range(3)
    ]
    for log in logs * 4:
        log.append_as_leader(build_batch([Record(0, 1, None, b"v")]), leader_epoch=1, now_ms=1)
        log.write_queued()
    assert sorted(path.rpartition(".")[2] for path in open_files(root) if path.endswith(".log")) == ["log"] * 3
    for log in logs:
        log.sync()
    assert [path for path in open_files(root) if path.endswith(".log")] == [logs[-1].segments()[-1].path]


def test_cleaner_offsets_survive_a_restart(root, files):
    """In Kafka's file; a log that was cleaned once may have gaps for ever, a deleted one is forgotten."""
    directory, logs = filled(root, files)
    note_cleaner_offset(directory, FLIGHTS, 2)()
    note_cleaner_offset(directory, ORDERS, 3)()
    assert (Path(root) / checkpoint.CLEANER_OFFSETS).read_text() == "0\n2\nflights 0 2\norders.v-2 13 3\n"
    again = LogDirectory.load(root, files)
    assert again.cleaner_offsets == {FLIGHTS: 2, ORDERS: 3}
    assert all(log.may_have_gaps for log in open_all(again).values())
    logs[FLIGHTS].abandon()
    doom_partition(again, FLIGHTS, bytes(16))
    assert again.cleaner_offsets == {ORDERS: 3}


def test_an_unreadable_cleaner_checkpoint_is_reported(root, files):
    """The logs are cleaned from their start; nothing has to be verified for it."""
    directory, logs = filled(root, files)
    directory.close(logs, broker_epoch=1)
    (Path(root) / checkpoint.CLEANER_OFFSETS).write_text("what?")
    again = LogDirectory.load(root, files)
    assert again.damaged_checkpoints == [checkpoint.CLEANER_OFFSETS]
    assert (again.cleaner_offsets, again.clean) == ({}, True)


def test_the_name_of_a_new_directory_is_durable(root, files, monkeypatch):
    """Synced files are lost if the name of their directory can be lost with the power."""
    synced = []
    monkeypatch.setattr(type(files), "sync_directory", lambda _, path: synced.append(path))
    LogDirectory.load(f"{root}/new", files)
    assert synced[0] == str(root)


def test_a_parent_that_may_not_be_opened_is_left_alone(root, files, monkeypatch):
    """A mounted directory may lie below a directory of another owner."""

    def refuse(_, path):
        raise PermissionError(path)

    monkeypatch.setattr(type(files), "sync_directory", refuse)
    assert LogDirectory.load(f"{root}/new", files).partitions == {}


@pytest.fixture
def stopped(root, files):
    """A directory of three partitions that was closed in order; their log ends are 0, 1 and 2."""
    directory = LogDirectory.load(root, files)
    logs = {}
    for number in range(3):
        partition = TopicPartition("wide", number)
        logs[partition] = log = directory.open_log(partition, bytes([number] * 16), LogConfig(), now_ms=1)
        for _ in range(number):
            log.append_as_leader(build_batch([Record(0, 1, None, b"v")]), leader_epoch=1, now_ms=1)
    directory.close(logs, broker_epoch=1)
    return root


def ends(root, files) -> list[int]:
    """The log ends of all partitions, as a start finds them."""
    directory = LogDirectory.load(root, files)
    opened = open_all(directory)
    assert [one.topic_id for one in directory.partitions.values()] == [bytes([number] * 16) for number in range(3)]
    return [log.log_end_offset for log in opened.values()]


def test_a_start_after_an_orderly_stop_opens_no_file_of_a_partition(stopped, files, monkeypatch):
    """No file of the folder is opened, also not partition.metadata with its topic id."""
    opened = []
    real = type(files).open_read
    monkeypatch.setattr(type(files), "open_read", lambda self, path: opened.append(path) or real(self, path))
    assert ends(stopped, files) == [0, 1, 2]
    assert [path for path in opened if "wide" in path] == []


@pytest.mark.parametrize("harm", ["none", "garbage", "cut"])
def test_damaged_summaries_cost_only_time(stopped, files, harm):
    """The log reports them, and the logs are read."""
    path = Path(stopped) / "log-summaries"
    if harm == "none":
        path.unlink()
    else:
        path.write_bytes(b"garbage" if harm == "garbage" else path.read_bytes()[:-1])
    directory = LogDirectory.load(stopped, files)
    assert (directory.summaries, directory.clean) == ({}, True)
    assert directory.damaged_checkpoints == ([] if harm == "none" else ["log-summaries"])
    checkpoint.write_clean_shutdown(files, stopped, 1)
    assert ends(stopped, files) == [0, 1, 2]


def test_after_a_failed_sync_no_summary_is_used(stopped, files):
    """The cache may differ from the disk: everything is verified."""
    LogDirectory.load(stopped, files).mark_offline("a test")
    checkpoint.write_clean_shutdown(files, stopped, 1)
    directory = LogDirectory.load(stopped, files)
    assert directory.summaries == {}
    log = directory.open_log(TopicPartition("wide", 2), bytes([2] * 16), LogConfig(), now_ms=1)
    assert log.recovery.segments_checked == 1


def test_a_summary_is_used_once_in_a_run(stopped, files):
    """A file that is opened a second time has changed in between."""
    directory = LogDirectory.load(stopped, files)
    directory.open_log(TopicPartition("wide", 1), bytes([1] * 16), LogConfig(), now_ms=1)
    assert set(directory.summaries) == {TopicPartition("wide", 0), TopicPartition("wide", 2)}


def test_the_summaries_of_an_earlier_stop_serve_a_start_after_a_kill(stopped, files):
    """They stay where they are; only what came since the stop is verified."""
    for _ in range(2):
        directory = LogDirectory.load(stopped, files)
        log = directory.open_log(TopicPartition("wide", 2), bytes([2] * 16), LogConfig(), now_ms=1)
        assert log.recovery.indexes_rebuilt == []
        log.append_as_leader(build_batch([Record(0, 1, None, b"v")]), leader_epoch=1, now_ms=1)
        log.write_queued()
    assert log.log_end_offset == 4


def test_a_damaged_identity_is_read_again(stopped, files):
    """The summary names the topic only while the partition's own file is what it was."""
    (Path(stopped) / "wide-1" / "partition.metadata").write_text("garbage")
    directory = LogDirectory.load(stopped, files)
    assert directory.partitions[TopicPartition("wide", 1)].topic_id is None


def test_a_changed_digit_of_a_log_start_hides_no_record(root, files):
    """It has no checksum: what was written down beside it counts, unless the checkpoint is the newer one."""
    directory, logs = filled(root, files)
    directory.write_checkpoints(logs)
    path = Path(f"{root}/{checkpoint.LOG_START_OFFSETS}")
    status, text = path.stat(), path.read_text()
    path.write_text(text.replace("flights 0 0", "flights 0 2"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    again = LogDirectory.load(root, files)
    assert (again.log_start_offsets[FLIGHTS], again.damaged_checkpoints) == (0, [checkpoint.LOG_START_OFFSETS])
    os.utime(path)
    again = LogDirectory.load(root, files)
    assert (again.log_start_offsets[FLIGHTS], again.damaged_checkpoints) == (2, [])
    path.write_text("garbage")
    assert LogDirectory.load(root, files).log_start_offsets[FLIGHTS] == 0


def test_bounds_are_written_when_they_have_changed(root, files, monkeypatch):
    """Checkpoints without a change write no bounds, because bounds wait for the disk twice."""
    directory, logs = filled(root, files)
    directory.write_checkpoints(logs)
    written = []
    monkeypatch.setattr(checkpoint, "write_durably", lambda files, path, data, **_: written.append(Path(path).name))
    directory.write_checkpoints(logs)
    assert written == [checkpoint.RECOVERY_POINTS]
    logs[FLIGHTS].advance_log_start(1)
    directory.write_checkpoints(logs)
    assert written[2:] == [checkpoint.LOG_START_OFFSETS, "log-bounds"]
    directory.forget(ORDERS)
    directory.write_bounds({})
    assert written[4:] == [checkpoint.LOG_START_OFFSETS, "log-bounds"]


def test_a_forgotten_partition_leaves_every_checkpoint(root, files):
    """Else another topic of its name would look as if it had lost records."""
    directory, logs = filled(root, files)
    directory.write_checkpoints(logs)
    directory.forget(FLIGHTS)
    known = (directory.recovery_points, directory.log_start_offsets, directory.bounds)
    assert all(FLIGHTS not in one for one in known)
    assert all(ORDERS in one for one in known)


def test_gaps_of_the_cleaner_are_known_after_a_damaged_checkpoint(root, files):
    """Also on a topic that is compacted no longer: its gaps are no damage."""
    directory, logs = filled(root, files)
    log = logs[FLIGHTS]
    log.gaps.expect(3)
    note_cleaner_offset(directory, FLIGHTS, 3)()
    directory.write_checkpoints(logs)
    for damaged in (None, checkpoint.CLEANER_OFFSETS, "log-bounds"):
        if damaged:
            Path(f"{root}/{damaged}").write_text("garbage")
        again = open_all(LogDirectory.load(root, files))
        assert [again[one].may_have_gaps for one in (FLIGHTS, ORDERS)] == [True, damaged == "log-bounds"]
        assert again[FLIGHTS].gaps.below == 3
