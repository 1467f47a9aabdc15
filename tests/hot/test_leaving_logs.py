"""Directories of logs that leave: renamed for deletion, or kept aside; no other topic's log begins in them."""

import errno
import shutil
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.leaving_logs import doom_left, doom_partition, forget_other_topic, make_way
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

NAME, OLD, NEW = TopicPartition("t", 0), b"i" * 16, b"n" * 16


class Shortage(RealFilesystem):
    """A disk that refuses the next call of one kind."""

    call: str | None = None

    def _refuse(self, name):
        if self.call == name:
            self.call = None
            raise OSError(errno.ENOSPC, "No space left on device")

    def rename(self, source, target):
        self._refuse("rename")
        super().rename(source, target)

    def sync_directory(self, path):
        self._refuse("sync")
        super().sync_directory(path)


@pytest.fixture
def disk():
    return Shortage()


@pytest.fixture
def directory(tmp_path, disk):
    """It has a log with one record; which topic it is of is known from its file alone."""
    directory = LogDirectory.load(str(tmp_path / "d"), disk)
    log = directory.open_log(NAME, OLD, LogConfig(), now_ms=0)
    log.append_as_leader(build_batch([Record(0, 1, None, b"old")]), leader_epoch=1, now_ms=0)
    log.sync()
    log.abandon()
    directory.write_checkpoints({NAME: log})
    return directory


@pytest.fixture
def found(directory):
    """The same directory as the next start finds it."""
    return LogDirectory.load(directory.path, directory.files)


def unique():
    return b"u" * 16


def names(directory):
    """The directories in it, without the part of a name that tells two apart."""
    return sorted(one.name.replace(f".{unique().hex()}", "") for one in Path(directory.path).iterdir() if one.is_dir())


def made_again(directory):
    """How many records a log of the other topic has that is begun now."""
    make_way(directory, NAME, NEW, unique)
    log = directory.open_log(NAME, NEW, LogConfig(), now_ms=0)
    log.abandon()
    return log.log_end_offset


def test_deleting_a_partition_takes_its_name_away_first(found):
    """The files go later; a topic of the same name may be created meanwhile."""
    doomed = doom_partition(found, NAME, bytes(16))
    assert Path(doomed).name == f"t-0.{0:032x}-delete"
    assert not Path(found.path, "t-0").exists()
    assert LogDirectory.load(found.path, found.files).doomed == [doomed]
    (removal,) = found.take_doomed()
    assert (removal.path, found.doomed) == (doomed, [])
    removal.run()
    assert not Path(doomed).exists()
    removal.run()  # gone already is fine


@pytest.mark.parametrize("call", ["rename", "sync"])
@pytest.mark.parametrize("known", [False, True], ids=["begun in this run", "found at the start"])
def test_a_deletion_that_found_no_room_is_done_before_a_topic_is_made_again(directory, found, disk, call, known):
    """The new topic showed the records of the deleted one, or could not be opened before the next start."""
    one = found if known else directory
    disk.call = call
    with pytest.raises(OSError, match="No space"):
        doom_partition(one, NAME, unique())
    assert made_again(one) == 0
    assert names(one) == ["t-0", "t-0-delete"]
    assert (one.leaving, len(one.doomed)) == (set(), 1)


def test_a_deletion_is_tried_again_while_there_is_no_room(directory, disk):
    """Its files would lie there until the next start, and then, too."""
    for _ in range(2):
        disk.call = "rename"
        with pytest.raises(OSError, match="No space"):
            (doom_left if directory.leaving else doom_partition)(
                directory, NAME, unique if directory.leaving else unique()
            )
        assert directory.leaving == {NAME}
    doom_left(directory, NAME, unique)
    doom_left(directory, NAME, unique)  # it has gone
    assert names(directory) == ["t-0-delete"]
    assert NAME not in directory.recovery_points


def test_a_deleted_log_that_an_operator_has_removed_is_forgotten(directory, disk):
    """To make room; that takes no directory offline."""
    disk.call = "rename"
    with pytest.raises(OSError, match="No space"):
        doom_partition(directory, NAME, unique())
    shutil.rmtree(Path(directory.path, "t-0"))
    assert made_again(directory) == 0
    assert (directory.leaving, directory.doomed) == (set(), [])


def test_a_directory_of_the_same_name_and_another_topic_is_kept_aside(found):
    """Files that a crash leaves between the deletion of a topic and of its files are renamed, never removed."""
    make_way(found, NAME, OLD, unique)
    assert NAME in found.partitions
    make_way(found, NAME, NEW, unique)
    assert NAME not in found.partitions
    assert names(found) == ["t-0-stray"]
    assert list(Path(found.path).glob("t-0.*-stray/partition.metadata"))
    make_way(found, NAME, NEW, unique)  # nothing is left to move


def test_no_log_is_begun_in_a_directory_that_names_another_topic(directory):
    """Also where no start has found it, and whatever became of its deletion."""
    assert made_again(directory) == 0
    assert names(directory) == ["t-0", "t-0-stray"]
    assert NAME not in directory.recovery_points


@pytest.mark.parametrize("metadata", [None, b"", b"?"], ids=["none", "empty", "unreadable"])
def test_a_directory_that_names_no_topic_is_not_moved(directory, metadata):
    """A full disk leaves one that was being begun."""
    path = Path(directory.path, "t-0", "partition.metadata")
    path.unlink()
    if metadata is not None:
        path.write_bytes(metadata)
    make_way(directory, NAME, NEW, unique)
    assert names(directory) == ["t-0"]


@pytest.mark.parametrize("call", ["rename", "sync"])
def test_a_log_that_found_no_room_aside_is_moved_when_it_is_tried_again(found, disk, call):
    """A directory that has its new name already is not looked for under the one before."""
    made_way, real = [], disk.rename

    def rename(source, target):
        if target.endswith("-stray") and not made_way:
            made_way.append(target)
            disk.call = call
        real(source, target)

    disk.rename = rename
    with pytest.raises(OSError, match="No space"):
        make_way(found, NAME, NEW, unique)
    assert made_again(found) == 0
    assert names(found) == ["t-0", "t-0-stray"]


@pytest.mark.parametrize("bit", [0, 3, 21 * 8 + 2, 24 * 8 + 5, 30 * 8, 42 * 8 + 4])
def test_a_damaged_topic_id_sets_no_partition_aside(directory, caplog, bit):
    """A flipped bit makes no other topic of it: the file is written again, and that is logged."""
    path = Path(directory.path, "t-0", "partition.metadata")
    good = path.read_bytes()
    data = bytearray(good)
    data[bit // 8] ^= 0x80 >> bit % 8
    path.write_bytes(data)
    again = LogDirectory.load(directory.path, directory.files)
    make_way(again, NAME, OLD, unique)
    assert again.partitions[NAME].topic_id == OLD
    assert path.read_bytes() == good
    assert "partition.metadata is damaged" in caplog.text


def test_a_log_of_another_topic_on_a_failed_disk_is_not_in_the_way(found):
    """One of the topic itself is."""
    forget_other_topic(found, NAME, OLD)
    assert NAME in found.partitions
    forget_other_topic(found, NAME, NEW)
    assert NAME not in found.partitions
    assert names(found) == ["t-0"]
