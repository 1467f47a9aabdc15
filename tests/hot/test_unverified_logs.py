"""Tests of hot/unverified_logs.py: what a clean stop does not vouch for, from one run to the next."""

import errno
import shutil
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.hot import unverified_logs
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.hot.unverified_logs import read_unverified, write_unverified
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

WIDE = TopicPartition("wide", 2)


def open_log(directory, number):
    return directory.open_log(TopicPartition("wide", number), bytes([number] * 16), LogConfig(), now_ms=1)


def open_wide(directory):
    return open_log(directory, 2)


@pytest.fixture
def stopped(tmp_path, files):
    """A directory of three partitions that was closed in order; their log ends are 0, 1 and 2."""
    root = str(tmp_path / "logs")
    directory = LogDirectory.load(root, files)
    logs = {}
    for number in range(3):
        logs[TopicPartition("wide", number)] = log = open_log(directory, number)
        for _ in range(number):
            log.append_as_leader(build_batch([Record(0, 1, None, b"v")]), leader_epoch=1, now_ms=1)
    directory.close(logs, broker_epoch=1)
    return root


def lose_a_page(root, files):
    """A power cut behind two batches that were not synced: the first of them is lost, the second one is there."""
    directory = LogDirectory.load(root, files)
    log = open_wide(directory)
    for _ in range(2):
        log.append_as_leader(build_batch([Record(0, 1, None, b"v" * 100)]), leader_epoch=1, now_ms=1)
    log.write_queued()
    log.abandon()
    path = Path(root) / "wide-2" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-200] ^= 1  # of the batch at 2
    path.write_bytes(data)


def test_a_log_that_was_not_opened_after_a_power_cut_is_verified_by_a_later_start(stopped, files):
    """Its broker stopped in order, and the lost batch was served: the log had not been read since."""
    lose_a_page(stopped, files)
    for _ in range(2):  # it could not be opened in two runs
        directory = LogDirectory.load(stopped, files)
        directory.close(
            {TopicPartition("wide", number): open_log(directory, number) for number in range(2)}, broker_epoch=2
        )
    directory = LogDirectory.load(stopped, files)
    assert (directory.clean, directory.unverified, directory.unknown) == (True, {WIDE}, [])
    logs = {TopicPartition("wide", number): open_log(directory, number) for number in range(3)}
    assert [log.recovery.segments_checked for log in logs.values()] == [0, 0, 1]
    assert logs[WIDE].log_end_offset == 2
    directory.close(logs, broker_epoch=3)
    assert not (Path(stopped) / "unverified-logs").exists()
    directory = LogDirectory.load(stopped, files)
    assert open_wide(directory).recovery.segments_checked == 0


@pytest.mark.parametrize("killed", [False, True])
def test_a_log_that_was_not_opened_between_two_orderly_stops_is_as_the_first_left_it(stopped, files, killed):
    """A node that stopped before its cluster named the partitions. After a kill between them it is not believed."""
    if killed:
        LogDirectory.load(stopped, files)
    LogDirectory.load(stopped, files).close({}, broker_epoch=2)
    directory = LogDirectory.load(stopped, files)
    assert len(directory.unverified) == (3 if killed else 0)
    assert open_wide(directory).recovery.segments_checked == int(killed)


def test_a_log_that_has_left_is_not_awaited(stopped, files):
    """Another one of its name is new: it has no doubtful bytes."""
    LogDirectory.load(stopped, files)
    directory = LogDirectory.load(stopped, files)
    directory.forget(WIDE)
    directory.close({}, broker_epoch=2)
    shutil.rmtree(Path(stopped) / "wide-1")
    directory = LogDirectory.load(stopped, files)
    assert directory.unverified == {TopicPartition("wide", number) for number in range(2)}
    directory.close({}, broker_epoch=2)
    assert LogDirectory.load(stopped, files).unverified == {TopicPartition("wide", 0)}


def test_a_stop_that_cannot_note_what_it_has_not_verified_is_no_clean_one(stopped, files, monkeypatch):
    """The disk is full, or must not be written."""
    lose_a_page(stopped, files)
    directory = LogDirectory.load(stopped, files)
    with monkeypatch.context() as patch:
        patch.setattr(unverified_logs, "write_durably", refuse_writes)
        with pytest.raises(OSError, match="no space"):
            directory.close({}, broker_epoch=2)
    directory = LogDirectory.load(stopped, files)
    assert not directory.clean
    assert open_wide(directory).log_end_offset == 2


def refuse_writes(*_arguments):
    raise OSError(errno.ENOSPC, "no space left")


def test_a_damaged_list_of_logs_that_were_not_verified_has_all_of_them_verified(stopped, files):
    """It names one of them, and does not say which."""
    lose_a_page(stopped, files)
    LogDirectory.load(stopped, files).close({}, broker_epoch=2)
    path = Path(stopped) / "unverified-logs"
    path.write_bytes(path.read_bytes()[:-3])
    directory = LogDirectory.load(stopped, files)
    assert directory.damaged_checkpoints == ["unverified-logs"]
    assert (directory.clean, len(directory.unverified)) == (True, 3)


def test_names_survive_their_file(tmp_path, files):
    """Topics may have hyphens."""
    names = {TopicPartition("a-b.c", 3), TopicPartition("z", 0)}
    write_unverified(files, str(tmp_path), names)
    damaged = []
    assert (read_unverified(files, str(tmp_path), (), damaged), damaged) == (names, [])
    write_unverified(files, str(tmp_path), ())
    assert (list(tmp_path.iterdir()), read_unverified(files, str(tmp_path), names, damaged)) == ([], set())


def framed(body, version=1):
    return b"%d %08x %d\n%b" % (version, crc32c(body), len(body), body)


@pytest.mark.parametrize(
    "data", [b"", b"1 0\n", b"1 0 0\n[]", framed(b"[]", 2), framed(b"[7]"), framed(b"7"), framed(b"[")]
)
def test_other_content_is_damage(tmp_path, files, data):
    """Then each log that is there may be meant."""
    (tmp_path / "unverified-logs").write_bytes(data)
    damaged = []
    assert read_unverified(files, str(tmp_path), [WIDE], damaged) == {WIDE}
    assert damaged == ["unverified-logs"]


@settings(max_examples=30)
@given(st.lists(st.one_of(st.none(), st.sets(st.integers(0, 2))), max_size=7))
def test_a_log_is_believed_if_it_was_closed_since_the_last_kill(tmp_path_factory, runs):
    """Each run opens some of the logs and stops in order, or is killed."""
    root, files = str(tmp_path_factory.mktemp("runs")), RealFilesystem()
    names, closed = [TopicPartition("wide", number) for number in range(3)], {0, 1, 2}
    directory = LogDirectory.load(root, files)
    directory.close({names[number]: open_log(directory, number) for number in closed}, broker_epoch=1)
    for opened in [*runs, None]:
        directory = LogDirectory.load(root, files)
        believed = {name.partition for name in names if directory.clean and name not in directory.unverified}
        assert believed == closed
        if opened is None:
            closed = set()
        else:
            directory.close({names[number]: open_log(directory, number) for number in opened}, broker_epoch=1)
            closed |= opened
