"""The names of a move on the disks, the rows of checkpoints that go with it, and the other half at the start."""

import errno
import logging
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.leaving_logs import doom_partition
from stratalog.hot.log_copy import SourceFailed
from stratalog.hot.moved_logs import (
    carry_rows,
    doom_copy,
    drop_notes,
    drop_origin,
    future_directory_name,
    note_origin,
    note_target,
    only_copies,
    rows_carried,
    settle_moves,
    take_over,
    undecided,
)
from stratalog.hot.stale_rows import drop_stale_rows
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.checkpoint import MetaProperties, RemoteLogState
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

NAME = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
UNIQUE = bytes(15) + b"\x07"


class Disk(RealFilesystem):
    """A disk on which the calls of ``failing`` fail: (method, end of a path)."""

    def __init__(self):
        self.failing = set()

    def _check(self, method, path):
        if any(method == name and path.endswith(end) for name, end in self.failing):
            raise OSError(5, f"{method} failed", path)

    def rename(self, source, target):
        self._check("rename", source)
        super().rename(source, target)

    def sync_directory(self, path):
        self._check("sync", path)
        super().sync_directory(path)


class Bench:
    """A log in the first of two directories."""

    def __init__(self, root):
        self.files = Disk()
        self.paths = [f"{root}/one", f"{root}/two"]
        self.source, self.target = self.load()
        self.log = self.source.open_log(NAME, TOPIC_ID, LogConfig(), now_ms=1)
        self.log.append_as_leader(bytearray(build_batch([Record(0, 1, None, b"v")])), leader_epoch=0, now_ms=1)
        self.log.sync()
        self.source.write_checkpoints({NAME: self.log})
        self.source.partitions = self.load()[0].partitions
        self.copy = f"{self.target.path}/{future_directory_name(NAME, UNIQUE)}"
        self.files.make_directory(self.copy)

    def load(self):
        loaded = [LogDirectory.load(path, self.files) for path in self.paths]
        for one in loaded:
            one.owner = MetaProperties("c", 1, Path(one.path).name.encode().ljust(16))
        return loaded

    def note(self):
        """Both notes, as before a swap."""
        note_origin(self.files, self.copy, self.source.owner.directory_id)
        note_target(self.files, self.log.directory, self.target.owner.directory_id)

    def settle(self):
        """The places of the log after the next start, and the moves that are to be begun again."""
        loaded = self.load()
        unfinished = settle_moves(loaded, lambda: UNIQUE)
        return [Path(one.path).name for one in loaded if NAME in one.partitions], unfinished

    def fill_copy(self, count):
        """The copy has the bytes of the log, and so many batches more."""
        for path in Path(self.log.directory).glob("*.log"):
            more = bytes(build_batch([Record(0, 1, None, b"v")])) * count
            Path(self.copy, path.name).write_bytes(path.read_bytes() + more)

    def append(self, log, count=1):
        for _ in range(count):
            log.append_as_leader(bytearray(build_batch([Record(0, 1, None, b"v")])), leader_epoch=1, now_ms=1)
        log.sync()

    def names(self):
        return sorted(entry.name for path in self.paths for entry in Path(path).iterdir() if entry.is_dir())


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_the_copy_takes_the_place_of_the_log(bench):
    """Its directory is the partition's afterwards, and the start finds it alone."""
    bench.note()
    take_over(bench.source, bench.target, bench.log, bench.copy)
    doom_partition(bench.source, NAME, UNIQUE)
    assert bench.target.partitions[NAME].path == bench.target.partition_path(NAME)
    assert bench.settle() == (["two"], [])
    drop_origin(bench.files, bench.target.partition_path(NAME))
    assert bench.settle() == (["two"], [])


def test_a_stop_in_between_leaves_the_copy(bench):
    """The log names its directory: nothing was written to the log since."""
    bench.note()
    take_over(bench.source, bench.target, bench.log, bench.copy)
    assert bench.settle() == (["two"], [])
    assert bench.names() == [f"t-0.{UNIQUE.hex()}-delete", "t-0"][::-1]


def test_a_move_that_a_start_finds_complete_is_decided_for_good(bench):
    """A kill left the note of the origin. When that disk failed much later, the log was not served."""
    bench.note()
    take_over(bench.source, bench.target, bench.log, bench.copy)
    doom_partition(bench.source, NAME, UNIQUE)
    assert bench.settle() == (["two"], [])
    _, target = bench.load()
    assert settle_moves([target], lambda: UNIQUE, is_all=False) == []
    assert undecided([target]) == set()


def test_the_note_of_a_move_that_begins_again_goes_at_the_start(bench):
    """It may be refused then, and nothing else would remove it."""
    bench.note()
    assert bench.settle()[0] == ["one"]
    assert not [
        one for path in bench.paths for one in Path(path).rglob(".stratalog-move*") if "-delete" not in str(one)
    ]


def test_notes_stay_while_a_directory_cannot_be_looked_at(bench, tmp_path):
    """The log may have gone on there."""
    bench.note()
    bench.files.rename(bench.copy, bench.target.partition_path(NAME))
    _, target = bench.load()
    settle_moves([target, LogDirectory.load(str(tmp_path / "three"), bench.files)], lambda: UNIQUE, is_all=False)
    assert undecided([target]) == {NAME}


@pytest.mark.parametrize("failing", [("rename", "-future"), ("sync", "/two")])
def test_a_disk_that_fails_leaves_the_log(bench, failing, caplog):
    """It may have been written to since, so the copy is set aside, also where it has got its name."""
    bench.note()
    bench.files.failing = {failing, ("rename", "two/t-0")}
    with pytest.raises(OSError, match="failed"):
        take_over(bench.source, bench.target, bench.log, bench.copy)
    assert NAME not in bench.target.partitions
    bench.files.failing = set()
    with caplog.at_level(logging.WARNING):
        places, _ = bench.settle()
    assert places == ["one"]
    assert not [name for name in bench.names() if name.endswith("-future")]
    if failing[0] == "sync":
        assert "whose disk failed" in caplog.text
        assert f"t-0.{UNIQUE.hex()}-stray" in bench.names()


def test_a_log_whose_note_cannot_be_removed_is_written_no_more(bench):
    """The next start may take the copy: the caller hears of it by an error of its own."""
    bench.note()
    bench.files.failing = {("sync", "/two"), ("sync", "one/t-0")}
    with pytest.raises(SourceFailed):
        take_over(bench.source, bench.target, bench.log, bench.copy)


def test_notes_of_an_earlier_move_do_not_count(bench):
    """A move begins by removing them."""
    bench.note()
    note_origin(bench.files, bench.log.directory, bench.target.owner.directory_id)
    drop_notes(bench.files, bench.log.directory)
    bench.files.rename(bench.copy, bench.target.partition_path(NAME))
    assert bench.settle()[0] == ["one"]


def test_two_logs_that_are_no_copies_are_left_alone(bench):
    """A start does not judge what it did not make."""
    bench.files.rename(bench.copy, bench.target.partition_path(NAME))
    assert bench.settle() == (["one", "two"], [])


def test_a_note_that_cannot_be_read_does_not_count(bench):
    """The log was written to, for all that is known."""
    bench.note()
    take_over(bench.source, bench.target, bench.log, bench.copy)
    Path(bench.log.directory, ".stratalog-moves-to").write_bytes(b"{")
    assert bench.settle()[0] == ["one"]


def test_a_copy_that_is_not_complete_is_dropped_and_known(bench):
    """It gets the name of something deleted, and the move begins again; nothing in the directory is strange."""
    loaded = bench.load()
    assert [one.unknown for one in loaded] == [[], [Path(bench.copy).name]]
    assert only_copies(loaded) == {}
    (move,) = settle_moves(loaded, lambda: UNIQUE)
    assert move == (NAME, bench.target.path)
    assert loaded[1].unknown == []
    assert loaded[1].doomed == [bench.copy.replace("-future", "-delete")]


def test_rows_that_were_carried_ahead_of_a_copy_go_with_it(bench):
    """A topic that is made again is begun in that directory: by those of the cleaner its offsets counted as clean."""
    bench.source.cleaner_offsets[NAME] = 1
    bench.source.second_timelines[NAME] = 0
    carry_rows(bench.source, bench.target, bench.log)
    bench.target.write_checkpoints({})
    target = bench.load()[1]
    settle_moves([bench.load()[0], target], lambda: UNIQUE)
    drop_stale_rows(target, NAME)
    found = bench.load()[1]
    rows = found.recovery_points, found.bounds, found.cleaner_offsets, found.second_timelines
    assert rows == ({}, {}, {}, {})


def test_an_only_copy_is_kept(bench, caplog):
    """It is all that is left of the log. While that may lie in a directory which is away, the next start knows of the move."""
    doom_partition(bench.source, NAME, UNIQUE)
    loaded = bench.load()
    assert only_copies(loaded) == {NAME: bench.copy}
    assert settle_moves(loaded, lambda: UNIQUE, is_replaced=False) == []
    assert loaded[1].unknown == []
    assert Path(bench.copy).name in bench.names()
    assert bench.settle() == ([], [])
    assert f"t-0.{UNIQUE.hex()}-stray" in bench.names()
    assert "it is kept as" in caplog.text


def test_a_copy_that_is_not_wanted_goes(bench):
    """Its files go with those of deleted partitions."""
    doom_copy(bench.target, bench.copy)
    for removal in bench.target.take_doomed():
        removal.run()
    assert bench.names() == ["t-0"]


def test_a_copy_that_is_not_wanted_goes_although_its_name_could_not_be_synced(bench, monkeypatch):
    """Its files lay there until the next start."""

    def no_descriptor(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(RealFilesystem, "sync_directory", no_descriptor)
        with pytest.raises(OSError, match="Too many"):
            doom_copy(bench.target, bench.copy)
    for removal in bench.target.take_doomed():
        removal.run()
    assert bench.names() == ["t-0"]


def test_rows_of_checkpoints_go_with_the_log(bench):
    """Each of them is on the disk of the target before the swap, and what has changed since is carried again."""
    carry_rows(bench.source, bench.target, bench.log)
    bench.target.write_checkpoints({})
    bench.target.points_stored = True
    assert rows_carried(bench.source, bench.target, bench.log)
    bench.log.advance_log_start(1)
    assert not rows_carried(bench.source, bench.target, bench.log), "the log start has moved since"
    bench.source.cleaner_offsets[NAME] = 1
    bench.source.remote_logs[NAME] = RemoteLogState(0, 1, 100)
    bench.source.second_timelines[NAME] = 0
    assert not rows_carried(bench.source, bench.target, bench.log)
    carry_rows(bench.source, bench.target, bench.log)
    assert not rows_carried(bench.source, bench.target, bench.log), "they are not written yet"
    bench.target.write_checkpoints({})
    bench.target.points_stored = True
    assert rows_carried(bench.source, bench.target, bench.log)
    found = bench.load()[1]
    assert (found.recovery_points[NAME], found.log_start_offsets[NAME], found.bounds[NAME].log_start_offset) == (
        1,
        1,
        1,
    )
    assert (found.cleaner_offsets, found.remote_logs) == ({NAME: 1}, {NAME: RemoteLogState(0, 1, 100)})
    for row in (0, 1):  # certain, and a mere doubt
        bench.source.second_timelines[NAME] = row
        assert rows_carried(bench.source, bench.target, bench.log) is (row == 0)
        carry_rows(bench.source, bench.target, bench.log)
        assert checkpoint.read_offsets(bench.files, bench.target.path, checkpoint.SECOND_TIMELINES) == {NAME: row}
    bench.source.cleaner_offsets.clear()
    assert not rows_carried(bench.source, bench.target, bench.log)
    carry_rows(bench.source, bench.target, bench.log)
    assert bench.load()[1].cleaner_offsets == {}


@pytest.mark.parametrize("before", [{}, {NAME: 9}])
def test_the_forgotten_offset_goes_with_the_log(bench, before):
    """Also in the place of a row that was left of an earlier log."""
    bench.target.forgotten_offsets = dict(before)
    bench.target.write_checkpoints({})
    for rows in ({NAME: 1}, {NAME: 2}, {}):
        bench.source.forgotten_offsets = rows
        carry_rows(bench.source, bench.target, bench.log)
        bench.target.write_checkpoints({})
        bench.target.points_stored = True
        assert rows_carried(bench.source, bench.target, bench.log)
        assert bench.load()[1].forgotten_offsets == rows
    bench.source.forgotten_offsets = {NAME: 3}
    assert not rows_carried(bench.source, bench.target, bench.log), "it has changed since"


def test_a_forgotten_offset_that_found_no_room_is_carried_again(bench):
    """It is not taken for carried because memory has it."""
    bench.source.forgotten_offsets[NAME] = 1
    bench.files.failing = {("rename", checkpoint.FORGOTTEN_OFFSETS + ".tmp")}
    for _ in range(2):
        with pytest.raises(OSError, match="failed"):
            carry_rows(bench.source, bench.target, bench.log)
    bench.files.failing = set()
    carry_rows(bench.source, bench.target, bench.log)
    assert bench.load()[1].forgotten_offsets == {NAME: 1}


@pytest.mark.parametrize("failing", [checkpoint.CLEANER_OFFSETS, checkpoint.REMOTE_LOG])
def test_rows_that_found_no_room_are_carried_again(bench, failing):
    """They are not taken for carried because memory has them."""
    bench.source.cleaner_offsets[NAME] = 1
    bench.source.remote_logs[NAME] = RemoteLogState(0, 1, 100)
    bench.files.failing = {("rename", failing + ".tmp")}
    for _ in range(2):
        with pytest.raises(OSError, match="failed"):
            carry_rows(bench.source, bench.target, bench.log)
    bench.files.failing = set()
    carry_rows(bench.source, bench.target, bench.log)
    found = bench.load()[1]
    assert (found.cleaner_offsets, found.remote_logs) == ({NAME: 1}, {NAME: RemoteLogState(0, 1, 100)})


def test_a_recovery_point_above_the_log_is_carried_again(bench):
    """The log was cut since: the row would show records as lost."""
    carry_rows(bench.source, bench.target, bench.log)
    bench.target.write_checkpoints({})
    bench.target.points_stored = True
    bench.log.truncate_to(0)
    assert not rows_carried(bench.source, bench.target, bench.log)


def test_a_log_that_goes_on_without_the_directory_of_its_copy_is_not_replaced_by_it(bench):
    """The disk of the copy was dead at a start: what was written since is in the log only."""
    bench.note()
    bench.files.rename(bench.copy, bench.target.partition_path(NAME))
    source, _ = bench.load()
    assert settle_moves([source], lambda: UNIQUE, is_all=False) == []
    assert bench.settle() == (["one"], [])
    assert bench.names() == ["t-0", f"t-0.{UNIQUE.hex()}-stray"]


def test_a_copy_that_goes_on_without_the_directory_of_its_log_takes_its_place(bench):
    """It was whole when the disk of the log died: what was written since is in the copy only."""
    bench.note()
    bench.files.rename(bench.copy, bench.target.partition_path(NAME))
    _, target = bench.load()
    assert settle_moves([target], lambda: UNIQUE, is_all=False) == []
    assert bench.settle() == (["two"], [])


@pytest.mark.parametrize("count", [0, 1])
def test_a_log_that_was_left_behind_is_removed_whatever_became_of_the_other_note(bench, count):
    """Its disk failed when it was to go, and the move ended there: the copy went on, or nothing came since."""
    bench.note()
    bench.fill_copy(count)
    bench.files.rename(bench.copy, bench.target.partition_path(NAME))
    drop_origin(bench.files, bench.target.partition_path(NAME))
    assert bench.settle() == (["two"], [])


def test_a_copy_is_undecided_while_its_log_cannot_be_looked_at(bench):
    """The log may have gone on while the directory of the copy was dead."""
    bench.note()
    bench.files.rename(bench.copy, bench.target.partition_path(NAME))
    source, target = bench.load()
    assert undecided([source, target]) == set()
    assert undecided([target]) == {NAME}
    assert undecided([source]) == set()


@pytest.mark.parametrize("roll", [False, True])
def test_an_older_image_of_the_target_does_not_replace_a_log_that_went_on(bench, caplog, roll):
    """The note of a move that never ended names that disk, which holds the log as it was once: both stay."""
    old = bench.target.open_log(NAME, TOPIC_ID, bench.log.config, now_ms=1)
    bench.append(old)
    old.abandon()
    note_target(bench.files, bench.log.directory, bench.target.owner.directory_id)
    if roll:
        bench.append(old := bench.log)
        old.roll()
    bench.append(bench.log)
    assert bench.settle()[0] == ["one", "two"]
    assert "older image" in caplog.text


def test_an_older_image_of_the_source_does_not_set_a_copy_aside_that_went_on(bench, caplog):
    """The note of the copy's origin was left by a kill."""
    bench.fill_copy(1)
    note_origin(bench.files, bench.copy, bench.source.owner.directory_id)
    bench.files.rename(bench.copy, bench.target.partition_path(NAME))
    assert bench.settle()[0] == ["one", "two"]
    assert "older image" in caplog.text
