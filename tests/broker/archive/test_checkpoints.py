"""The broker's records beside the logs of their archives, and of logs that went back in time."""

from types import SimpleNamespace

import pytest

from stratalog.broker.archive.checkpoints import ArchiveCheckpoints
from stratalog.broker.runtime.ballast import Ballast
from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage.checkpoint import RemoteLogState
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
