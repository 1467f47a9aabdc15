"""Rows of logs that have left, and the next logs of their names."""

import pytest

from stratalog.hot.cleaner_offsets import note_cleaner_offset
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.leaving_logs import doom_partition
from stratalog.hot.stale_rows import drop_rows_of_topic, drop_stale_rows, forget_removed, row_stores, rows_stored
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.checkpoint import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    SECOND_TIMELINES,
    RemoteLogState,
)
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

NAME, OTHER = TopicPartition("t", 0), TopicPartition("a-b", 12)
ID = b"i" * 16


class World:
    """A directory with two logs of ten records; all checkpoints have rows of them."""

    def __init__(self, root, files):
        self.root, self.files = root, files
        self.directory = LogDirectory.load(root, files)
        self.logs = {name: self.begin(name, 10) for name in (NAME, OTHER)}
        self.logs[NAME].advance_log_start(4)
        self.directory.write_checkpoints(self.logs)
        self.directory.write_high_watermarks(dict.fromkeys(self.logs, 10))
        remote = dict.fromkeys(self.logs, RemoteLogState(*[7] * len(RemoteLogState._fields)))
        checkpoint.write_remote_log(files, root, remote)
        self.directory.remote_logs = remote
        for name in self.logs:
            note_cleaner_offset(self.directory, name, 5)()
        checkpoint.write_offsets(files, root, SECOND_TIMELINES, dict.fromkeys(self.logs, 0))
        self.directory.second_timelines = dict.fromkeys(self.logs, 0)

    def begin(self, name, count):
        log = self.directory.open_log(name, ID, LogConfig(), now_ms=1)
        for _ in range(count):
            log.append_as_leader(build_batch([Record(0, 1, None, b"v")]), leader_epoch=1, now_ms=1)
        log.sync()
        return log

    def others(self):
        """The logs with a row in each checkpoint that the cleaner and archives write."""
        rows = [checkpoint.read_offsets(self.files, self.root, name) for name in (CLEANER_OFFSETS, SECOND_TIMELINES)]
        return [set(each) for each in (*rows, checkpoint.read_remote_log(self.files, self.root))]

    def leave(self, name):
        self.logs.pop(name).abandon()
        doom_partition(self.directory, name, b"u" * 16)

    def killed(self):
        """The directory as the next start finds it."""
        for log in self.logs.values():
            log.abandon()
        found = LogDirectory.load(self.root, self.files)
        forget_removed(found)
        return found


@pytest.fixture
def world(tmp_path, files):
    return World(str(tmp_path / "logs"), files)


def test_a_log_that_came_back_before_a_kill_has_its_own_start_and_end(world):
    """It had the rows of the one before: damaged by the one, and begun behind its records by the other."""
    world.leave(NAME)
    drop_stale_rows(world.directory, NAME)
    world.logs[NAME] = world.begin(NAME, 2)
    log = world.killed().open_log(NAME, ID, LogConfig(), now_ms=2)
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)
    assert log.recovery.damaged_offset is None


def test_the_rows_of_others_stay(world):
    """They are no older than before."""
    world.leave(NAME)
    drop_stale_rows(world.directory, NAME)
    assert checkpoint.read_offsets(world.files, world.root, RECOVERY_POINTS) == {OTHER: 10}
    assert checkpoint.read_offsets(world.files, world.root, HIGH_WATERMARKS) == {OTHER: 10}
    assert world.others() == [{OTHER}] * 3
    assert world.killed().bounds.keys() == {OTHER}
    assert not world.directory.stale


def test_no_file_is_written_for_a_name_that_is_new(world, monkeypatch):
    """Thousands of topics are created, and few again."""
    monkeypatch.setattr(checkpoint, "write_durably", lambda *_: pytest.fail("a file is written"))
    world.leave(NAME)
    drop_stale_rows(world.directory, OTHER)
    rows_stored(world.directory, {})


def test_the_checkpoints_of_others_have_no_row_when_those_of_logs_have_none(world, monkeypatch):
    """They are written at other times: the archive of the next log of that name was called lost, and its offsets clean."""
    world.leave(NAME)
    rows_stored(world.directory, dict(world.directory.stale))
    assert world.others() == [{OTHER}] * 3
    monkeypatch.setattr(checkpoint, "write_durably", lambda *_: pytest.fail("a file is written"))
    drop_stale_rows(world.directory, NAME)


def test_rows_of_the_cleaner_alone_go_before_a_log_is_set_aside(world):
    """Its topic is gone, and no other checkpoint has seen it."""
    for rows in (world.directory.recovery_points, world.directory.log_start_offsets, world.directory.high_watermarks):
        rows.clear()
    for rows in (world.directory.remote_logs, world.directory.bounds, world.directory.second_timelines):
        rows.clear()
    world.directory.partitions = LogDirectory.load(world.root, world.files).partitions
    drop_rows_of_topic(world.directory, NAME)
    assert checkpoint.read_offsets(world.files, world.root, CLEANER_OFFSETS) == {}


def test_a_row_that_came_after_a_log_had_left_stays(world):
    """A log of that name moves here while the checkpoints are written in steps."""
    world.leave(NAME)
    for number, store in enumerate(row_stores(world.directory, dict(world.directory.stale))):
        if not number:
            note_cleaner_offset(world.directory, NAME, 3)()
            world.directory.second_timelines[NAME] = 0
        store()
    assert world.others() == [{NAME, OTHER}, {NAME, OTHER}, {OTHER}]


def test_a_cleaning_that_is_written_down_late_brings_no_row_back(world):
    """A thread writes it, of another log of the directory."""
    write = note_cleaner_offset(world.directory, OTHER, 9)
    world.leave(NAME)
    drop_stale_rows(world.directory, NAME)
    write()
    assert checkpoint.read_offsets(world.files, world.root, CLEANER_OFFSETS) == {OTHER: 9}


def test_a_log_that_leaves_twice_before_its_rows_are_written_is_stale_in_all_files(world):
    """The second time it has no row in memory."""
    world.leave(NAME)
    world.directory.forget(NAME)
    drop_stale_rows(world.directory, NAME)
    assert world.others() == [{OTHER}] * 3


def test_a_log_that_leaves_again_while_checkpoints_are_written_has_rows_still(world):
    """Those of the one that came back in between may be in the first of the files."""
    world.leave(NAME)
    stale = dict(world.directory.stale)
    drop_stale_rows(world.directory, NAME)
    world.logs[NAME] = world.begin(NAME, 2)
    doom_partition(world.directory, NAME, b"v" * 16)
    rows_stored(world.directory, stale)
    assert world.directory.stale.keys() == {NAME}


def test_damaged_checkpoints_of_marks_stop_no_new_log(world):
    """They say nothing of any log."""
    for name in (HIGH_WATERMARKS, checkpoint.REMOTE_LOG):
        checkpoint.write_durably(world.files, f"{world.root}/{name}", b"x")
    world.leave(NAME)
    drop_stale_rows(world.directory, NAME)
    assert not world.directory.stale


def test_a_log_that_was_removed_before_a_kill_is_not_missed(world):
    """Its directory still waits for its removal, and the recovery points have a row of it."""
    world.leave(NAME)
    found = world.killed()
    assert found.gone == set()
    assert found.recovery_points == {OTHER: 10}
    assert found.stale.keys() == {NAME}


def test_a_log_whose_directory_is_not_there_at_all_is_missed(world, tmp_path):
    """A disk has lost it."""
    world.logs.pop(NAME).abandon()
    (tmp_path / "logs" / "t-0").rename(tmp_path / "elsewhere")
    assert world.killed().gone == {NAME}


def test_rows_of_a_log_that_came_back_count_although_the_one_before_waits_for_its_removal(world):
    """They are its own: those of the one before had gone first."""
    world.leave(OTHER)
    drop_stale_rows(world.directory, OTHER)
    world.logs[OTHER] = world.begin(OTHER, 3)
    world.directory.write_checkpoints(world.logs)
    found = world.killed()
    assert found.recovery_points[OTHER] == 3
    assert found.partitions.keys() == {NAME, OTHER}
