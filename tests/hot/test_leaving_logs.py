"""Directories of logs that leave: renamed for deletion, or kept aside; no other topic's log begins in them."""

import errno
import shutil
from ast import literal_eval
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.gone_logs import has_lost
from stratalog.hot.leaving_logs import doom_left, doom_partition, forget_other_topic, make_way
from stratalog.hot.storage.checkpoint import write_clean_shutdown
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Corrupt
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


def test_a_log_of_the_longest_name_is_kept_aside(tmp_path):
    """Under a name that Linux takes: else its log directory would go offline."""
    name = TopicPartition("t" * 249, 12)
    directory = LogDirectory.load(str(tmp_path / "d"), RealFilesystem())
    log = directory.open_log(name, OLD, LogConfig(), now_ms=0)
    log.sync()
    log.abandon()
    again = LogDirectory.load(directory.path, directory.files)
    make_way(again, name, NEW, unique)
    assert names(again) == [f"{'t' * 213}-12-stray"]
    assert LogDirectory.load(directory.path, directory.files).unknown == []


def test_no_log_is_begun_in_a_directory_that_names_another_topic(directory):
    """Also where no start has found it, and whatever became of its deletion."""
    assert made_again(directory) == 0
    assert names(directory) == ["t-0", "t-0-stray"]
    assert NAME not in directory.recovery_points


UNREADABLE = pytest.mark.parametrize("metadata", [None, b"", b"?"], ids=["none", "empty", "unreadable"])


def spoil(directory, metadata):
    """Leave a file that names no topic."""
    path = Path(directory.path, "t-0", "partition.metadata")
    path.unlink()
    if metadata is not None:
        path.write_bytes(metadata)


@UNREADABLE
@pytest.mark.parametrize("known", [False, True], ids=["begun in this run", "found at the start"])
def test_an_empty_directory_that_names_no_topic_is_not_moved(tmp_path, disk, metadata, known):
    """A full disk leaves one that was being begun."""
    directory = LogDirectory.load(str(tmp_path / "d"), disk)
    directory.open_log(NAME, OLD, LogConfig(), now_ms=0).abandon()
    spoil(directory, metadata)
    one = LogDirectory.load(directory.path, disk) if known else directory
    assert made_again(one) == 0
    assert names(one) == ["t-0"]


@UNREADABLE
@pytest.mark.parametrize("known", [False, True], ids=["begun in this run", "found at the start"])
def test_a_log_that_names_no_topic_is_no_topics_copy(directory, disk, caplog, metadata, known):
    """Its records may be of a topic that was deleted. It is missed, so that no empty one in its place counts."""
    spoil(directory, metadata)
    one = LogDirectory.load(directory.path, disk) if known else directory
    assert made_again(one) == 0
    assert names(one) == ["t-0", "t-0-stray"]
    assert has_lost(one, NAME)
    assert "partition.metadata cannot be read" in caplog.text


def test_a_log_that_is_missed_is_missed_after_a_kill(directory, disk):
    """Before the checkpoint that follows."""
    spoil(directory, None)
    make_way(LogDirectory.load(directory.path, disk), NAME, NEW, unique)
    again = LogDirectory.load(directory.path, disk)
    assert has_lost(again, NAME)
    assert again.recovery_points == {NAME: 0}


@UNREADABLE
def test_the_only_log_that_names_no_topic_waits_for_the_operator(directory, disk, metadata):
    """It is neither shown nor moved; the file that is named brings it back."""
    spoil(directory, metadata)
    one = LogDirectory.load(directory.path, disk)
    with pytest.raises(Corrupt, match="may be of a topic of this name that was deleted") as held:
        make_way(one, NAME, OLD, unique, is_only=True)
    assert (names(one), one.recovery_points) == (["t-0"], {NAME: 1})
    Path(one.path, "t-0", "partition.metadata").write_text(
        literal_eval(str(held.value).split(": ", 1)[1].split(";")[0])
    )
    again = LogDirectory.load(directory.path, disk)
    make_way(again, NAME, OLD, unique, is_only=True)
    assert again.open_log(NAME, OLD, LogConfig(), now_ms=0).log_end_offset == 1


@pytest.fixture
def young(tmp_path, disk):
    """A log with one record that no checkpoint knows."""
    directory = LogDirectory.load(str(tmp_path / "young"), disk)
    log = directory.open_log(NAME, OLD, LogConfig(), now_ms=0)
    log.append_as_leader(build_batch([Record(0, 1, None, b"old")]), leader_epoch=1, now_ms=0)
    log.sync()
    log.abandon()
    directory.write_checkpoints({})
    return directory


@pytest.mark.parametrize("metadata", [None, b"", bytes(42)], ids=["none", "empty", "zeros"])
@pytest.mark.parametrize("is_only", [False, True])
def test_an_unsynced_log_that_names_no_topic_is_kept_aside(young, disk, metadata, is_only):
    """A power cut leaves it; it has confirmed nothing, and is not missed."""
    spoil(young, metadata)
    one = LogDirectory.load(young.path, disk)
    make_way(one, NAME, NEW, unique, is_only=is_only)
    assert (names(one), has_lost(one, NAME)) == (["t-0-stray"], False)


def test_a_file_that_has_rotted_is_no_sign_of_a_power_cut(young, disk):
    """A log that is younger than the first checkpoint may have confirmed records, too."""
    spoil(young, b"version: 0?topic?")
    with pytest.raises(Corrupt, match="may be of a topic"):
        make_way(LogDirectory.load(young.path, disk), NAME, OLD, unique, is_only=True)


@UNREADABLE
@pytest.mark.parametrize("is_only", [False, True])
def test_an_orderly_stop_knows_whose_log_it_is(tmp_path, disk, metadata, is_only):
    """Its summary has the topic, with a checksum: the file is written again, or the log is kept aside."""
    directory = LogDirectory.load(str(tmp_path / "d"), disk)
    log = directory.open_log(NAME, OLD, LogConfig(), now_ms=0)
    log.append_as_leader(build_batch([Record(0, 1, None, b"old")]), leader_epoch=1, now_ms=0)
    directory.close({NAME: log}, broker_epoch=1)
    good = Path(directory.path, "t-0", "partition.metadata").read_bytes()
    spoil(directory, metadata)
    one = LogDirectory.load(directory.path, disk)
    make_way(one, NAME, OLD, unique, is_only=is_only)
    assert one.partitions[NAME].topic_id == OLD
    assert Path(directory.path, "t-0", "partition.metadata").read_bytes() == good
    spoil(directory, metadata)
    write_clean_shutdown(disk, directory.path, 1)
    one = LogDirectory.load(directory.path, disk)
    assert made_again(one) == 0
    assert names(one) == ["t-0", "t-0-stray"]
    assert not has_lost(one, NAME)


def test_a_summary_of_before_a_kill_is_not_believed(directory, disk):
    """The name may have gone to another topic since."""
    log = directory.open_log(NAME, OLD, LogConfig(), now_ms=0)
    directory.close({NAME: log}, broker_epoch=1)
    spoil(directory, b"")
    Path(directory.path, ".kafka_cleanshutdown").unlink()
    with pytest.raises(Corrupt, match="may be of a topic"):
        make_way(LogDirectory.load(directory.path, disk), NAME, OLD, unique, is_only=True)


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
    found.partitions[NAME] = found.partitions[NAME]._replace(topic_id=None)
    forget_other_topic(found, NAME, NEW)
    assert NAME in found.partitions
    found.partitions[NAME] = found.partitions[NAME]._replace(topic_id=OLD)
    forget_other_topic(found, NAME, NEW)
    assert NAME not in found.partitions
    assert names(found) == ["t-0"]
