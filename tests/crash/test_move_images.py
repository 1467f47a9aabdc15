"""Power cuts at any call of a move between directories: the start finds one log, with all that was acknowledged."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.leaving_logs import doom_partition
from stratalog.hot.log.log import Log
from stratalog.hot.log_copy import LogCopy
from stratalog.hot.moved_logs import (
    carry_rows,
    doom_copy,
    drop_notes,
    drop_origin,
    future_directory_name,
    note_origin,
    note_target,
    rows_carried,
    settle_moves,
    take_over,
)
from stratalog.hot.storage.checkpoint import MetaProperties
from stratalog.wire.batch import Record, build_batch, iter_headers
from stratalog.wire.topic import TopicPartition

PARTITION = TopicPartition("flights", 0)
TOPIC_ID = bytes(range(16))
ROOTS = ("/d", "/e")
IMAGES_BY_DEFAULT = 150
IMAGES_FULL = 2_000


@dataclass(frozen=True)
class Promise:
    """Offsets below ``end`` were acknowledged, those below ``start`` deleted."""

    end: int
    start: int


def config() -> LogConfig:
    return LogConfig(segment_bytes=2_000, index_interval_bytes=200, file_delete_delay_ms=0, retention_ms=-1)


def unique() -> bytes:
    return random.randbytes(16)


class Moving:
    """A log that is appended to while it moves from one directory to the other, any number of times."""

    def __init__(self, files, seed: int) -> None:
        self.files = files
        self.rng = random.Random(seed)
        for root in ROOTS:
            files.make_directory(root)
        self.source, self.target = (LogDirectory.load(root, files) for root in ROOTS)
        for one in (self.source, self.target):
            one.owner = one.owner or owner_of(one.path)
        self.log = self.source.open_log(PARTITION, TOPIC_ID, config(), now_ms=1)
        self.batches: dict[int, bytes] = {}
        self.epoch = 0

    def append(self, times: int = 1) -> None:
        for _ in range(times):
            if self.rng.random() < 0.05:
                self.epoch += 1
            count = self.rng.randrange(1, 4)
            records = [Record(one, 1, None, self.rng.randbytes(self.rng.randrange(400))) for one in range(count)]
            batch = bytearray(build_batch(records))
            info = self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=1)
            self.batches[info.base_offset] = bytes(batch)
            if self.rng.random() < 0.4:
                self.acknowledge()

    def acknowledge(self) -> None:
        self.log.sync()
        self.files.mark(Promise(self.log.flushed_offset, self.source.log_start_offsets.get(PARTITION, 0)))

    def delete_some(self) -> None:
        """As DeleteRecords does: the new start is written down before files go."""
        self.log.advance_log_start(self.rng.randrange(self.log.log_start_offset, self.log.flushed_offset + 1))
        self.source.write_checkpoints({PARTITION: self.log})
        self.log.delete_local_before(self.log.log_start_offset)
        self.acknowledge()

    def begin(self) -> None:
        self.path = f"{self.target.path}/{future_directory_name(PARTITION, unique())}"
        drop_notes(self.files, self.log.directory)
        self.copy = LogCopy(self.files, self.log.directory, self.path, TOPIC_ID)
        self.copy.allowed_bytes = 700
        self.copy.begin()

    def copy_pass(self) -> None:
        """Copy while the log goes on."""
        for _ in self.copy.copying(self.log.moving.view()):
            if self.rng.random() < 0.2:
                self.append()

    def finish(self) -> None:
        """The part for which writes are held."""
        while not rows_carried(self.source, self.target, self.log):
            carry_rows(self.source, self.target, self.log)
            self.target.write_checkpoints({})
            self.target.points_stored = True
        self.log.write_queued()
        self.log.moving.begin()
        view = self.log.moving.view()
        for _ in self.copy.copying(view):
            pass
        self.copy.finish(self.log.leader_epochs.to_bytes())
        note_origin(self.files, self.path, self.source.owner.directory_id)
        note_target(self.files, self.log.directory, self.target.owner.directory_id)
        self.log.sync()
        assert self.log.moving.is_at(view)

    def swap(self) -> None:
        take_over(self.source, self.target, self.log, self.path)
        doom_partition(self.source, PARTITION, unique())
        self.log.moving.relocate(self.target.partition_path(PARTITION))
        self.source, self.target = self.target, self.source

    def clean(self) -> None:
        drop_origin(self.files, self.log.directory)
        for directory in (self.source, self.target):
            for removal in directory.take_doomed():
                removal.run()

    def move(self) -> None:
        self.begin()
        for _ in range(self.rng.randrange(1, 3)):
            self.copy_pass()
            self.append(self.rng.randrange(3))
            if self.rng.random() < 0.2:
                self.delete_some()
        self.finish()
        self.swap()
        self.append(self.rng.randrange(3))
        self.clean()


def owner_of(path: str) -> MetaProperties:
    return MetaProperties("cluster", 1, path.encode() * 8)


def opened(files) -> tuple[Log, LogDirectory, list]:
    """The log as the next start opens it."""
    directories = [LogDirectory.load(root, files) for root in ROOTS]
    for one in directories:
        one.owner = owner_of(one.path)
    unfinished = settle_moves(directories, unique)
    (holding,) = [one for one in directories if PARTITION in one.partitions]
    return holding.open_log(PARTITION, TOPIC_ID, config(), now_ms=2), holding, unfinished


def check(files, promise: Promise, batches: dict[int, bytes]) -> None:
    log, holding, _ = opened(files)
    assert log.log_end_offset >= promise.end, "acknowledged records are lost"
    assert log.log_start_offset >= promise.start, "deleted records are back"
    start = max(log.log_start_offset, log.local_log_start_offset)
    assert start <= promise.end or not promise.end
    read = log.read(start, max_bytes=1 << 30, max_offset=log.log_end_offset)
    stored = b"".join(part.file.pread(part.length, part.position) for part in read.parts)
    for position, header in iter_headers(stored):
        whole = batches[header.base_offset]
        assert stored[position : position + len(whole)] == whole
    log.append_as_leader(bytearray(build_batch([Record(0, 1, None, b"on")])), leader_epoch=1 << 20, now_ms=3)
    log.sync()
    holding.write_checkpoints({PARTITION: log})
    end = log.log_end_offset
    again, where, _ = opened(files)
    assert (again.log_end_offset, where.path) == (end, holding.path)


def cut_everywhere(journaled_files, power_cut, marks, batches, count: int, begin: int = 0) -> None:
    rng = random.Random(begin)
    last = len(journaled_files.journal)
    for number in range(count):
        index = rng.randrange(begin, last + 1)
        image = power_cut(journaled_files, None, index, random.Random(number))
        promise = Promise(0, 0)
        for mark in marks(journaled_files, index):
            promise = mark
        try:
            check(image, promise, batches)
        except BaseException as error:
            error.add_note(f"cut behind call {index} with seed {number}: {journaled_files.journal[index - 1]}")
            raise


def run_moves(files, seed: int, moves: int = 2) -> Moving:
    moving = Moving(files, seed)
    moving.append(12)
    moving.acknowledge()
    for _ in range(moves):
        moving.move()
        moving.append(4)
    return moving


def images(journaled, power_cut, marks, seeds, count) -> None:
    for seed in seeds:
        files = journaled()
        moving = run_moves(files, seed)
        cut_everywhere(files, power_cut, marks, moving.batches, count)


def test_a_power_cut_leaves_one_log_with_all_that_was_acknowledged(journaled, power_cut, marks):
    """A sample of the images of moves to and fro."""
    images(journaled, power_cut, marks, range(3), IMAGES_BY_DEFAULT // 3)


@pytest.mark.crash
def test_a_power_cut_leaves_one_log_in_many_images(journaled, power_cut, marks):
    """The same, many times."""
    images(journaled, power_cut, marks, range(40), IMAGES_FULL // 40)


@pytest.mark.story
@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_at_every_call_of_the_swap(journaled, power_cut, marks, seed):
    """Each call of the swap, and of the appends behind it, with several images."""
    files = journaled()
    moving = Moving(files, seed)
    moving.append(8)
    moving.acknowledge()
    moving.begin()
    moving.copy_pass()
    begin = len(files.journal)
    moving.finish()
    moving.swap()
    moving.append(3)
    moving.acknowledge()
    moving.clean()
    for index in range(begin, len(files.journal) + 1):
        for number in range(2):
            image = power_cut(files, None, index, random.Random(number))
            *_, promise = marks(files, index)
            check(image, promise, moving.batches)


@pytest.mark.parametrize("seed", range(4))
def test_a_disk_that_fails_in_the_swap_leaves_the_log_where_it_was(journaled, power_cut, marks, seed):
    """The copy may have its name on the disk: it does not count, whatever is appended to the log afterwards."""
    files = journaled()
    moving = Moving(files, seed)
    moving.append(8)
    moving.acknowledge()
    moving.begin()
    moving.copy_pass()
    moving.finish()
    begin = len(files.journal)
    files.failing_directories.add(moving.target.path)
    with pytest.raises(OSError, match="sync failed"):
        moving.swap()
    moving.append(4)
    moving.acknowledge()
    cut_everywhere(files, power_cut, marks, moving.batches, 60, begin)


def test_a_copy_that_is_not_complete_begins_anew(journaled):
    """The log counts, the copy goes, and the move is known."""
    files = journaled()
    moving = Moving(files, 1)
    moving.append(8)
    moving.acknowledge()
    moving.begin()
    moving.copy_pass()
    log, holding, unfinished = opened(files)
    assert (holding.path, log.log_end_offset) == ("/d", moving.log.log_end_offset)
    assert [(one.topic_partition, one.target) for one in unfinished] == [(PARTITION, "/e")]
    assert moving.path not in files.directories


def test_an_only_copy_is_kept(journaled):
    """Where the log is in none of the directories, its copy is set aside."""
    files = journaled()
    moving = Moving(files, 1)
    moving.append(8)
    moving.begin()
    moving.copy_pass()
    directories = [LogDirectory.load("/e", files)]
    assert settle_moves(directories, unique) == []
    assert any(one.endswith("-stray") for one in files.directories)
    assert not directories[0].doomed


def test_a_move_that_was_given_up_leaves_nothing(journaled):
    """Its copy has the name of something deleted, and goes with the next removal."""
    files = journaled()
    moving = Moving(files, 1)
    moving.append(8)
    moving.begin()
    doom_copy(moving.target, moving.path)
    for removal in moving.target.take_doomed():
        removal.run()
    assert not [one for one in files.directories if one.startswith("/e/")]
