"""Checkpoints that are written in steps, with everything that may happen between two of them."""

from pathlib import Path

import pytest

from stratalog.hot import checkpoint_draft, checkpoint_steps
from stratalog.hot.checkpoint_steps import bounds_steps, high_watermark_steps, recovery_point_steps
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.leaving_logs import doom_partition
from stratalog.hot.state.log_bounds import LOG_BOUNDS, bounds_from_bytes, bounds_to_bytes
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.checkpoint import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

NAMES = [TopicPartition("b", 2), TopicPartition("a.x", 10), TopicPartition("b", 0), TopicPartition("a.x", 9)]


@pytest.fixture(autouse=True)
def a_row_a_step(monkeypatch):
    monkeypatch.setattr(checkpoint_draft, "_ROWS_PER_PAUSE", 1)


class World:
    """Four logs of three records each."""

    def __init__(self, root, files):
        self.root = root
        self.directory = LogDirectory.load(root, files)
        self.logs = {}
        for number, name in enumerate(NAMES):
            log = self.directory.open_log(name, bytes([number]) * 16, LogConfig(), now_ms=1)
            self.logs[name] = log
            self.append(log)

    def open(self):
        return list(self.logs.values())

    def append(self, log, count=3):
        for _ in range(count):
            log.append_as_leader(build_batch([Record(0, 1, None, b"v")]), leader_epoch=1, now_ms=1)
        log.sync()

    def write(self, steps, *, between=None, at=3):
        """Carry steps out, with something ``between`` two of them."""
        done = 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                end.value()
                assert done > at, "too few steps"
                return
            done += 1
            if done == at and between is not None:
                between()

    def read(self, name):
        return checkpoint.read_offsets(self.directory.files, self.root, name)

    def bounds(self):
        return bounds_from_bytes(Path(self.root, LOG_BOUNDS).read_bytes())

    def delete(self, name):
        self.logs[name].abandon()
        doom_partition(self.directory, name, b"u" * 16)


@pytest.fixture
def world(tmp_path, files):
    return World(str(tmp_path / "logs"), files)


def test_the_files_are_those_that_are_written_in_one_go(world):
    """Byte for byte, rows in the same order; partitions that are not open keep their rows."""
    world.directory.recovery_points[TopicPartition("closed", 1)] = 77
    world.write(recovery_point_steps(world.directory, world.open, {}))
    world.write(bounds_steps(world.directory, world.open))
    world.write(high_watermark_steps(world.directory, lambda: [(name, 2) for name in NAMES]))
    found = {
        name: Path(world.root, name).read_bytes() for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)
    }
    points = dict.fromkeys(NAMES, (3,)) | {TopicPartition("closed", 1): (77,)}
    assert found[RECOVERY_POINTS] == checkpoint.numbers_to_bytes(points)
    assert found[LOG_START_OFFSETS] == checkpoint.numbers_to_bytes(dict.fromkeys(NAMES, (0,)))
    assert found[HIGH_WATERMARKS] == checkpoint.numbers_to_bytes(dict.fromkeys(NAMES, (2,)))
    assert Path(world.root, LOG_BOUNDS).read_bytes() == bounds_to_bytes(world.directory.bounds)
    assert len(world.directory.bounds) == 4


def test_an_unchanged_file_is_not_written_again(world, monkeypatch):
    """An idle broker with many partitions writes one file of three."""
    written = []
    real = checkpoint.write_durably

    def noted(files, path, data):
        written.append(Path(path).name)
        real(files, path, data)

    monkeypatch.setattr(checkpoint, "write_durably", noted)
    for _ in range(2):
        written.clear()
        world.write(recovery_point_steps(world.directory, world.open, {}))
        world.write(bounds_steps(world.directory, world.open))
    assert written == []
    world.append(world.logs[NAMES[0]])
    world.write(recovery_point_steps(world.directory, world.open, {}))
    world.write(bounds_steps(world.directory, world.open))
    assert written == [RECOVERY_POINTS]


def test_a_log_start_is_kept_when_its_row_is_on_the_disk(world):
    """Not one that moved on after its row was gathered; and again when another checkpoint has written the same row."""
    log = world.logs[NAMES[0]]
    assert log.start.is_kept
    log.advance_log_start(1)
    assert not log.start.is_kept
    world.write(bounds_steps(world.directory, world.open), between=lambda: log.advance_log_start(2), at=4)
    assert (log.start.is_kept, log.start.kept_offset) == (False, 1)
    world.write(bounds_steps(world.directory, world.open))
    assert log.start.is_kept
    assert world.read(LOG_START_OFFSETS)[NAMES[0]] == 2
    log.start.kept_offset = 0
    world.write(bounds_steps(world.directory, world.open))
    assert log.start.is_kept


def test_a_log_start_is_not_kept_while_its_file_finds_no_room(world, monkeypatch):
    """A follower may not tell its leader that the records are gone for good."""
    log = world.logs[NAMES[0]]
    log.advance_log_start(1)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_durably", full_disk)
        with pytest.raises(OSError, match="full"):
            world.write(bounds_steps(world.directory, world.open))
    assert not log.start.is_kept
    world.write(bounds_steps(world.directory, world.open))
    assert log.start.is_kept


def full_disk(_files, _path, _data):
    raise OSError(28, "full")


def test_a_cut_that_comes_after_the_row_keeps_its_note(world):
    """The file says more than the log has: without the note a crash would read as lost data."""
    log = world.logs[NAMES[0]]
    log.truncate_to(2)
    marked = {log: log.cycles.noted_cut}
    steps = recovery_point_steps(world.directory, world.open, marked)
    world.write(steps, between=lambda: log.truncate_to(1), at=5)
    note = Path(log.directory, "truncation-checkpoint")
    assert note.exists()
    world.write(recovery_point_steps(world.directory, world.open, marked))
    assert note.exists(), "the mark on the disk is from before the second cut"
    assert world.read(RECOVERY_POINTS)[NAMES[0]] == 1
    world.write(recovery_point_steps(world.directory, world.open, {log: log.cycles.noted_cut}))
    assert not note.exists()


def test_a_row_that_another_checkpoint_wrote_meanwhile_is_not_taken_back(world):
    """A log start that was acknowledged to a client of DeleteRecords, for one."""
    log = world.logs[NAMES[1]]

    def delete_records():
        log.advance_log_start(2)
        world.write(recovery_point_steps(world.directory, world.open, {}))
        world.write(bounds_steps(world.directory, world.open))

    world.write(bounds_steps(world.directory, world.open), between=delete_records, at=5)
    assert world.read(LOG_START_OFFSETS)[NAMES[1]] == 2
    assert world.bounds()[NAMES[1]].log_start_offset == 2


def test_a_checkpoint_that_is_overtaken_again_and_again_is_written(world):
    """In one go at last."""
    overtaken = []

    def rows():
        overtaken.append(1)
        for name in NAMES:
            yield name, len(overtaken)
            world.directory.changes.store_count += 1

    world.write(high_watermark_steps(world.directory, rows))
    assert len(overtaken) == checkpoint_steps._TRIES + 1
    assert world.read(HIGH_WATERMARKS) == dict.fromkeys(NAMES, len(overtaken))


@pytest.mark.parametrize("at", range(1, 6))
def test_a_partition_that_goes_meanwhile_has_no_row(world, at):
    """A new topic of its name would begin with the recovery point of the former, and look as if it had lost records."""
    rows = lambda: [(name, 2) for name in NAMES]  # noqa: E731 - one line
    makers = (
        lambda: recovery_point_steps(world.directory, world.open, {}),
        lambda: bounds_steps(world.directory, world.open),
        lambda: high_watermark_steps(world.directory, rows),
    )
    for maker, gone in zip(makers, NAMES, strict=False):
        world.write(maker(), between=lambda gone=gone: world.delete(gone), at=at)
    assert NAMES[0] not in world.read(RECOVERY_POINTS)
    assert NAMES[1] not in world.read(LOG_START_OFFSETS)
    assert NAMES[1] not in world.bounds()
    assert NAMES[2] not in world.read(HIGH_WATERMARKS)
    assert NAMES[0] not in world.directory.recovery_points
    assert NAMES[1] not in world.directory.bounds
    assert len(world.read(RECOVERY_POINTS)) == 3


def test_a_file_that_finds_no_room_is_written_when_it_is_stored_again(world, monkeypatch):
    """The ballast makes room for the second try."""
    real, failures = checkpoint.write_durably, []

    def full(*arguments):
        if failures:
            failures.pop()
            raise OSError(28, "full")
        real(*arguments)

    monkeypatch.setattr(checkpoint, "write_durably", full)
    for steps in (recovery_point_steps(world.directory, world.open, {}), bounds_steps(world.directory, world.open)):
        while True:
            try:
                next(steps)
            except StopIteration as end:
                store = end.value
                break
        failures.append(1)
        with pytest.raises(OSError, match="full"):
            store()
        store()
    assert world.read(RECOVERY_POINTS) == dict.fromkeys(NAMES, 3)
    assert set(world.bounds()) == set(NAMES)
