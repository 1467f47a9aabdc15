"""The broker's records beside the logs of their archives, and of logs that went back in time."""

from types import SimpleNamespace

import pytest

from stratalog.broker.archive.checkpoints import ArchiveCheckpoints
from stratalog.broker.runtime.ballast import Ballast
from stratalog.hot.directory import LogDirectory
from stratalog.hot.stale_rows import drop_stale_rows
from stratalog.hot.storage.checkpoint import SECOND_TIMELINES, RemoteLogState, read_offsets
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.topic import TopicPartition

ONE, TWO = TopicPartition("a", 0), TopicPartition("a", 1)


class Rig:
    """One log directory, loaded anew by each run."""

    def __init__(self, tmp_path):
        self.path = str(tmp_path)
        self.failed = []
        self.run()

    def run(self):
        self.files = LogDirectory.load(self.path, RealFilesystem())
        writer = SimpleNamespace(path=self.path, offline=None, report=self.failed.append)
        ballast = Ballast(self.path, 0)
        directory = SimpleNamespace(files=self.files, path=self.path, writer=writer, ballast=ballast)
        everything = SimpleNamespace(all=[directory], online=[directory], of=lambda _: directory)
        self.checkpoints = ArchiveCheckpoints(everything)
        return self.checkpoints

    def unified(self, key):
        return SimpleNamespace(topic_partition=key, partition=SimpleNamespace(directory=None, path=self.path))


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def remote(end, *, known=True):
    """As much of an archive as is checkpointed."""
    return SimpleNamespace(known=known, state=RemoteLogState(0, end, 10))


def write(rig, **ends):
    """Checkpoint what is known."""
    led = {}
    for name, end in ends.items():
        key = ONE if name == "one" else TWO
        directory = SimpleNamespace(path=rig.path)
        led[_Led(key, directory)] = remote(end)
    rig.checkpoints.write(led)


class _Led:
    """As much of a led partition."""

    def __init__(self, key, directory):
        self.topic_partition = key
        self.partition = SimpleNamespace(directory=directory)


def test_known_state_survives_a_restart(rig):
    """And tells whether anything was ever archived from here."""
    write(rig, one=0)
    assert not rig.run().archives_known()
    write(rig, one=5)
    assert rig.run().archives_known()
    assert rig.checkpoints.state_of(rig.unified(ONE)) == RemoteLogState(0, 5, 10)


def test_suspects_are_durable_at_once_and_cleared_with_the_next_checkpoint(rig):
    """A second look costs little, a forgotten one costs data."""
    write(rig, one=5, two=0)
    assert rig.checkpoints.suspect_all()
    assert rig.run().is_suspect(rig.unified(ONE))
    assert rig.checkpoints.is_suspect(rig.unified(TWO))
    rig.checkpoints.clear(rig.unified(ONE))
    assert not rig.checkpoints.is_suspect(rig.unified(ONE))
    assert rig.run().is_suspect(rig.unified(ONE))
    rig.checkpoints.clear(rig.unified(ONE))
    write(rig, one=5)
    assert not rig.run().is_suspect(rig.unified(ONE))
    assert rig.checkpoints.is_suspect(rig.unified(TWO))
    assert rig.checkpoints.suspect(rig.unified(ONE))
    assert rig.run().is_suspect(rig.unified(ONE))


def test_a_damaged_file_suspects_all(rig, tmp_path):
    """Any of them may have been named in it."""
    write(rig, one=5, two=7)
    (tmp_path / "second-timeline-checkpoint").write_text("nonsense")
    rig.run()
    assert rig.checkpoints.is_suspect(rig.unified(ONE))
    assert rig.checkpoints.is_suspect(rig.unified(TWO))


def test_a_topic_that_is_made_again_has_its_row_though_it_is_that_of_the_one_before(rig):
    """The row of the deleted topic has gone from the disk: the archive was unknown after a start."""
    write(rig, one=5)
    rig.files.forget(ONE)
    drop_stale_rows(rig.files, ONE)
    write(rig, one=5)
    assert rig.run().state_of(rig.unified(ONE)) == RemoteLogState(0, 5, 10)


@pytest.fixture
def two(tmp_path):
    """Two log directories, and a log in each."""
    every = []
    for name in ("one", "two"):
        path = str(tmp_path / name)
        writer = SimpleNamespace(path=path, offline=None, report=pytest.fail)
        found = LogDirectory.load(path, RealFilesystem())
        every.append(SimpleNamespace(files=found, path=path, writer=writer, ballast=Ballast(path, 0)))
    everything = SimpleNamespace(
        all=every, online=every, of=lambda writer: next(one for one in every if one.writer is writer)
    )
    logs = [
        SimpleNamespace(topic_partition=name, partition=SimpleNamespace(directory=one.writer))
        for name, one in zip((ONE, TWO), every, strict=True)
    ]
    return ArchiveCheckpoints(everything), logs, everything


def on_disk(everything):
    """The suspects of each directory."""
    return [set(read_offsets(RealFilesystem(), one.path, SECOND_TIMELINES)) for one in everything.all]


def test_doubts_that_are_settled_in_two_directories_are_settled_in_both(two):
    """The first one that was written forgot the second's: its logs were compared again, and producers fenced."""
    checkpoints, logs, everything = two
    for unified in logs:
        assert checkpoints.suspect(unified)
    assert on_disk(everything) == [{ONE}, {TWO}]
    for unified in logs:
        checkpoints.clear(unified)
    checkpoints.write({})
    assert [checkpoints.is_suspect(unified) for unified in logs] == [False, False]
    assert on_disk(everything) == [set(), set()]
    assert checkpoints._cleared == set()


def test_a_doubt_is_settled_in_the_directory_to_which_its_log_moves_as_well(two):
    """Both have a row of it while it moves."""
    checkpoints, (unified, _), everything = two
    assert checkpoints.suspect(unified)
    everything.all[1].files.second_timelines[ONE] = 0
    checkpoints.clear(unified)
    checkpoints.write({})
    assert [one.files.second_timelines for one in everything.all] == [{}, {}]


def test_a_doubt_about_all_keeps_those_that_are_known(rig):
    """Also of a log whose archive has no row yet."""
    write(rig, one=5)
    assert rig.checkpoints.suspect(rig.unified(TWO))
    assert rig.checkpoints.suspect_all()
    rig.run()
    assert [rig.checkpoints.is_suspect(rig.unified(one)) for one in (ONE, TWO)] == [True, True]


def test_a_mark_says_whether_it_is_certain(rig, tmp_path):
    """Over starts, until it is cleared; a later doubt makes a certain mark no weaker, and old releases wrote certain ones."""
    write(rig, one=5, two=7)
    one, two = rig.unified(ONE), rig.unified(TWO)
    assert rig.checkpoints.suspect(one, certain=False)
    assert (rig.run().is_suspect(one), rig.checkpoints.is_certain(one)) == (True, False)
    assert rig.checkpoints.suspect(one)
    assert rig.checkpoints.suspect(two, certain=False)
    assert rig.checkpoints.suspect(one, certain=False)
    assert [rig.run().is_certain(each) for each in (one, two)] == [True, False]
    rig.checkpoints.clear(one)
    rig.checkpoints.write_cleared()
    assert [rig.run().is_suspect(each) for each in (one, two)] == [False, True]
    assert not rig.checkpoints.is_certain(two)
    (tmp_path / "second-timeline-checkpoint").write_text("0\n1\na 0 0\n")
    assert rig.run().is_certain(one)
