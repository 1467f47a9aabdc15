"""A broker with three log directories and a topic in one of them."""

import threading
from pathlib import Path

import pytest

from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition
from tests.conftest import WatchedFilesystem

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
NAME = TopicPartition("t", 0)


class Disks:
    """The broker, and the paths of its directories: where the topic is, and the two others."""

    def __init__(self, node, paths):
        self.node = node
        node.create("t", internal_segment_bytes=5000)
        self.home = self.place
        self.other, self.third = (path for path in paths if path != self.home)

    @property
    def place(self):
        """The directory of the log."""
        return self.node.partition("t").partition.directory.path

    def directory(self, path):
        """The broker's own object for a directory."""
        return next(one for one in self.node.node.directories.all if one.path == path)

    def stand_still(self):
        """Copy nothing from now on."""
        self.set_rate(0)

    def set_rate(self, rate):
        """As kafka-configs sets it."""
        self.node.run(lambda: self.node.node.config.values.__setitem__(RATE, rate))

    def ask(self, path, code=ErrorCode.NONE):
        """Ask for a move."""
        assert self.node.run(lambda: self.node.node.moves.ask(NAME, path)) is code

    def moved(self, path):
        """Wait until the log lies in a directory."""
        self.node.wait_until(lambda: self.place == path and not self.moving)

    @property
    def moving(self):
        """The moves that have not ended."""
        return self.node.node.moves._running

    def ended(self):
        """Wait until none is under way."""
        self.node.wait_until(lambda: not self.moving)

    def copies(self):
        """The names of copies in all directories."""
        return [
            entry.name
            for path in (self.home, self.other, self.third)
            for entry in Path(path).iterdir()
            if entry.name.endswith("-future")
        ]


class Stopping(RealFilesystem):
    """A disk on which syncs of copies wait for ``go`` once ``stops`` is set; ``waiting`` is set meanwhile."""

    def __init__(self):
        self.stops = False
        self.go, self.waiting = threading.Event(), threading.Event()

    def sync_directory(self, path):
        if self.stops and path.endswith("-future"):
            self.waiting.set()
            assert self.go.wait(60)
        super().sync_directory(path)


class WaitingAtNote(RealFilesystem):
    """A disk on which the removal of the note at ``path`` waits for ``go``; ``waiting`` is set meanwhile."""

    def __init__(self):
        self.path = None
        self.go, self.waiting = threading.Event(), threading.Event()

    def unlink(self, path):
        if path == self.path:
            self.waiting.set()
            assert self.go.wait(60)
        super().unlink(path)


@pytest.fixture
def make_disks(start_node, tmp_path):
    """Starts the broker, on a file system of the test's own."""

    def make(files=None, **settings):
        paths = [str(tmp_path / name) for name in ("one", "two", "three")]
        return Disks(start_node(log_dirs=",".join(paths), files=files, **settings), paths)

    return make


@pytest.fixture
def disks(make_disks):
    return make_disks()


@pytest.fixture
def watched():
    return WatchedFilesystem()


@pytest.fixture
def stopping():
    return Stopping()


@pytest.fixture
def waiting_at_note():
    return WaitingAtNote()
