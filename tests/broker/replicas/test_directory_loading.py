"""Locks and loads the log directories at the start. One whose disk fails does not stop a broker that has others."""

import errno
import os

import pytest

from stratalog.broker.replicas.directory_loading import load_directories, lock_directory, release_loaded, report, settle
from stratalog.broker.runtime.ballast import NOTHING_SPARE
from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage.checkpoint import (
    CLEANER_OFFSETS,
    FORGOTTEN_OFFSETS,
    RECOVERY_POINTS,
    MetaProperties,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
)
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.hot.unverified_logs import write_unverified
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition


@pytest.fixture
def load(tmp_path, watched_files):
    """Load two directories of one broker; the first has the metadata."""

    def run(*, needed="one", metadata_only=None):
        paths = [f"{tmp_path}/{name}" for name in ("one", "two")]
        return load_directories(
            paths,
            watched_files,
            NOTHING_SPARE,
            needed=needed and f"{tmp_path}/{needed}",
            metadata_only=metadata_only and f"{tmp_path}/{metadata_only}",
        )

    release_loaded(run())
    for name in ("one", "two"):
        write_meta_properties(watched_files, f"{tmp_path}/{name}", MetaProperties("c", 1, os.urandom(16)))
        write_clean_shutdown(watched_files, f"{tmp_path}/{name}", 7)
    return run


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.EACCES])
def test_a_directory_that_fails_is_offline_beside_another_one(load, watched_files, tmp_path, caplog, code):
    """Without a lock, and with a line that names it."""
    watched_files.fail("unlink", f"{tmp_path}/two", code)
    one, two = load()
    assert (one.error, one.files.clean, two.error.errno, two.lock) == (None, True, code, None)
    assert (two.files.owner, two.files.partitions, two.files.clean) == (None, {}, False)
    assert f"log directory {tmp_path}/two cannot be used" in caplog.text
    os.close(lock_directory(f"{tmp_path}/two"))
    release_loaded([one, two])


def test_a_log_that_was_moved_by_hand_is_as_doubtful_as_it_was(load, watched_files, tmp_path):
    """The stop before could not vouch for it; nor does the mark of the other directory."""
    moved, left = TopicPartition("t", 0), TopicPartition("t", 1)
    write_unverified(watched_files, f"{tmp_path}/one", [moved, left])
    for name in (f"two/{moved}", f"one/{left}", "two/t-2"):
        (tmp_path / name).mkdir()
    one, two = load()
    assert two.files.unverified == {moved}
    assert left in one.files.unverified
    release_loaded([one, two])


@pytest.mark.parametrize("name", ["disk-1", "disk-1/logs", "link"])
def test_a_directory_in_the_place_of_a_partition_of_another_one_is_refused(tmp_path, watched_files, name):
    """A topic called disk would write into it, and take all of it away when it is deleted. Other names may lie there."""
    (tmp_path / "a" / "disk-1").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "disk-1")
    path = f"{tmp_path}/{name}" if name == "link" else f"{tmp_path}/a/{name}"
    with pytest.raises(Invalid, match=rf"{tmp_path}/a/disk-1 is where the log of disk-1 would lie.* as to disk1"):
        load_directories([f"{tmp_path}/a", path], watched_files, NOTHING_SPARE, needed=None, metadata_only=None)
    others = [
        f"{tmp_path}/a",
        f"{tmp_path}/a/disk1",
        f"{tmp_path}/a/disk-01",
        f"{tmp_path}/b-1",
        f"{tmp_path}/b-1/disk",
    ]
    release_loaded(load_directories(others, watched_files, NOTHING_SPARE, needed=None, metadata_only=None))


def test_a_disk_was_replaced_where_a_directory_is_new_and_all_can_be_read(load, watched_files, tmp_path):
    """Logs that lie in none are lost then. A checkpoint that is damaged makes no directory new, nor does that of the metadata."""

    def is_replaced(**options):
        loaded = load(**options)
        release_loaded(loaded)
        return settle(loaded, metadata_only=f"{tmp_path}/one").is_replaced

    write_offsets(watched_files, f"{tmp_path}/two", RECOVERY_POINTS, {})
    copy = tmp_path / "two" / f"t-0.{'7' * 32}-future"
    copy.mkdir()
    loaded = load()
    release_loaded(loaded)
    settled = settle(loaded, metadata_only=f"{tmp_path}/one")
    assert (settled.is_replaced, settled.only_copies) == (False, {TopicPartition("t", 0): str(copy)})
    assert copy.exists()
    (tmp_path / "two" / RECOVERY_POINTS).write_bytes(b"?")
    assert not is_replaced()
    (tmp_path / "two" / RECOVERY_POINTS).unlink()
    watched_files.fail("unlink", f"{tmp_path}/one", errno.EIO)
    assert not is_replaced(needed="two")
    watched_files.faults.clear()
    assert is_replaced()
    assert not copy.exists()


def test_a_log_that_waits_for_its_removal_is_not_missed(load, watched_files, tmp_path):
    """A kill after it left, before the next checkpoint; one without any directory is missed."""
    (tmp_path / "two" / f"t-0.{'7' * 32}-delete").mkdir()
    left, lost = TopicPartition("t", 0), TopicPartition("u", 0)
    write_offsets(watched_files, f"{tmp_path}/two", RECOVERY_POINTS, {left: 5, lost: 5})
    loaded = load()
    assert loaded[1].files.gone == {lost}
    release_loaded(loaded)


@pytest.mark.parametrize(
    ("name", "code", "options"),
    [
        ("one", errno.EIO, {}),
        ("two", errno.EIO, {"needed": None}),
        ("two", errno.EIO, {"metadata_only": "one"}),
        ("two", errno.ENOSPC, {}),
        ("two", errno.EMFILE, {}),
    ],
    ids=["metadata", "no topics beside", "only one for topics", "full", "descriptors"],
)
def test_a_start_ends_where_no_directory_can_be_missed(load, watched_files, tmp_path, name, code, options):
    """Locks are free again, and the marks of the last stop are there."""
    watched_files.fail("unlink", f"{tmp_path}/{name}", code)
    with pytest.raises(OSError, match=os.strerror(code)):
        load(**options)
    watched_files.faults.clear()
    again = load()
    assert [(each.error, each.files.clean) for each in again] == [(None, True), (None, True)]
    release_loaded(again)


def test_a_directory_that_is_no_directory(load, tmp_path):
    """Offline beside another one; else the settings are wrong, which name it."""
    (tmp_path / "two").rename(tmp_path / "kept")
    (tmp_path / "two").write_bytes(b"")
    loaded = load()
    assert [each.error is None for each in loaded] == [True, False]
    release_loaded(loaded)
    with pytest.raises(Invalid, match=r"log\.dirs \(--data\): the directory .*/two cannot be made: File exists"):
        load(needed="two")


def test_a_damaged_checkpoint_is_reported_with_its_cost(tmp_path, caplog):
    """The content of all but one is derived from the logs: no log says up to where its tombstones were dropped."""
    directory = LogDirectory.load(str(tmp_path), RealFilesystem())
    directory.damaged_checkpoints = [CLEANER_OFFSETS, FORGOTTEN_OFFSETS]
    report(directory)
    first, second = (one.getMessage() for one in caplog.records)
    assert first == f"{tmp_path}/{CLEANER_OFFSETS} is damaged; its content is derived from the logs and the other files"
    assert second.startswith(f"{tmp_path}/{FORGOTTEN_OFFSETS} is damaged: until logs are cleaned again, a replica")
