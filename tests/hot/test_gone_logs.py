"""Tests of hot/gone_logs.py."""

import errno
import shutil
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.directory import NEW_BESIDE, LogDirectory
from stratalog.hot.gone_logs import begin_points, has_lost, is_new, note_lost
from stratalog.hot.leaving_logs import doom_partition
from stratalog.hot.storage import checkpoint
from stratalog.wire.topic import TopicPartition

KEPT, GONE, NEW = (TopicPartition("t", number) for number in range(3))


@pytest.fixture
def left(tmp_path, files):
    """A directory with two logs, after its broker has stopped."""
    directory = LogDirectory.load(str(tmp_path / "logs"), files)
    begin_points(directory)
    logs = {name: directory.open_log(name, bytes(16), LogConfig(), now_ms=1) for name in (KEPT, GONE)}
    directory.close(logs, broker_epoch=1)
    return Path(directory.path)


def found(path, files):
    directory = LogDirectory.load(str(path), files)
    return {name for name in (KEPT, GONE, NEW) if has_lost(directory, name)}


def test_a_log_without_its_directory_is_gone(left, files):
    """One that was never begun has no row, and is new."""
    assert found(left, files) == set()
    shutil.rmtree(left / "t-1")
    assert found(left, files) == {GONE}


def test_without_the_checkpoint_all_that_is_missing_is_gone(left, files):
    """All that the cluster has placed here was here: the first start writes the checkpoint before anything is."""
    shutil.rmtree(left / "t-1")
    (left / checkpoint.RECOVERY_POINTS).unlink()
    assert found(left, files) == {GONE, NEW}


def test_a_new_directory_has_lost_nothing_once_it_was_begun(tmp_path, files):
    """Also if the broker is killed before it has written to any log."""
    directory = LogDirectory.load(str(tmp_path / "logs"), files)
    assert has_lost(directory, NEW)
    begin_points(directory)
    assert not has_lost(directory, NEW)
    assert found(tmp_path / "logs", files) == set()


def test_a_directory_that_was_new_while_others_could_not_be_read_is_new_when_they_are_back(tmp_path, files):
    """Also over more starts without them. Where one of them was left out meanwhile it is away, and nothing says that it is lost."""

    def start(*here, unread=()):
        directory = LogDirectory.load(str(tmp_path / "logs"), files)
        found = is_new(directory, here)
        begin_points(directory, here, unread)
        assert directory.unknown == []
        return found

    assert start("/two", unread=["/one"])
    assert not start("/two", unread=["/one"])
    assert not start("/two")
    assert start("/one", "/two")
    assert not start("/one", "/two")
    for damaged in (b"?", b"1", b""):
        (tmp_path / "logs" / NEW_BESIDE).write_bytes(damaged)
        assert not start("/one")


def test_a_directory_that_was_there_before_is_not_new_beside_one_that_cannot_be_read(left, files):
    """The same holds where its checkpoint is damaged."""
    for content in (None, b"?"):
        if content is not None:
            (left / checkpoint.RECOVERY_POINTS).write_bytes(content)
        begin_points(LogDirectory.load(str(left), files), [str(left)], ["/one"])
        assert not (left / NEW_BESIDE).exists()


def test_a_start_that_cannot_write_the_checkpoint_takes_no_new_log_for_one_that_is_gone(tmp_path, files, monkeypatch):
    """The disk was full for one call: logs that were begun in this run would all have been missed."""
    directory = LogDirectory.load(str(tmp_path / "logs"), files)

    def no_room(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_durably", no_room)
        with pytest.raises(OSError, match="No space"):
            begin_points(directory)
    assert not has_lost(directory, NEW)
    assert not directory.points_stored, "the next checkpoint writes it"


def test_a_log_that_is_gone_stays_gone_over_starts(left, files):
    """The checkpoint that is written again has a row for it; others are new."""
    shutil.rmtree(left / "t-1")
    (left / checkpoint.RECOVERY_POINTS).unlink()
    directory = LogDirectory.load(str(left), files)
    note_lost(directory, GONE)
    begin_points(directory)
    assert found(left, files) == {GONE}


def test_a_log_that_was_deleted_is_not_gone(left, files):
    """Its row went with it."""
    directory = LogDirectory.load(str(left), files)
    doom_partition(directory, GONE, b"u" * 16)
    directory.write_recovery_points({})
    assert found(left, files) == set()
