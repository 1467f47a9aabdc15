"""The log start that a follower tells is the one that a kill or a power cut leaves: its leader answers DeleteRecords for it."""

import random
from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.partition import Partition
from stratalog.hot.checkpoint_steps import bounds_steps
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.first_marks import begin_at_log_start
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.leader_rig import Disk
from tests.broker.replicas.test_follower import Heard, batch, data

NAME, ID = TopicPartition("t", 0), b"i" * 16


class HeardAt(Heard):
    """Remembers how many calls the files had seen at the last position."""

    def __init__(self, files) -> None:
        super().__init__()
        self.files, self.call = files, 0

    def taken(self, role, position):
        """The position goes to the leader."""
        super().taken(role, position)
        self.call = len(self.files.journal)


class Copy:
    """A follower whose log lies in a log directory of files that remember every call."""

    def __init__(self, files, **config) -> None:
        self.config = LogConfig(flush_messages=1, retention_ms=-1, **config)
        self.directory = LogDirectory.load("/d", files)
        self.log = self.directory.open_log(NAME, ID, self.config, now_ms=1)
        self.disk, self.heard = Disk(), HeardAt(files)
        clock = SimpleNamespace(wall_ms=lambda: 1_700_000_000_000, monotonic=lambda: 1.0)
        self.partition = Partition(self.log, directory=self.disk, high_watermark=0, clock=clock, rework=lambda *_: None)

    def take(self, role, *batches, **told):
        """An answer of the leader, and all that the disk has to do for it."""
        role.take(data(*batches, **told), self.heard)
        self.work()

    def work(self):
        """Write, sync, and write the checkpoint that is waited for."""
        self.disk.write()
        self.disk.flush()
        if self.disk.waits_for_bounds:
            self.keep()
            self.disk.waits_for_bounds = False
            self.partition.on_flushed()

    def keep(self):
        """Write down the log starts, as a checkpoint does."""
        steps = bounds_steps(self.directory, lambda: [self.log])
        while True:
            try:
                next(steps)
            except StopIteration as end:
                end.value()
                return


def found(image, config):
    """The log that the next start finds."""
    log = LogDirectory.load("/d", image).open_log(NAME, ID, config, now_ms=2, others_have_it=True)
    begin_at_log_start(log)
    return log


@pytest.fixture
def copy_of(journaled):
    """Make such a follower."""

    def make(**config):
        files = journaled()
        copy = Copy(files, **config)
        copy.files = files
        return copy

    return make


def test_the_start_in_a_position_outlives_a_power_cut(copy_of, power_cut):
    """Deleted records would come back with a copy that leads then: a name that has gone is there again."""
    copy = copy_of(segment_bytes=600)
    role = copy.partition.follow(7, 5)
    for offset in range(0, 40, 5):
        copy.take(role, batch(offset, 5), high_watermark=offset)
    start = copy.log.segments()[1].base_offset
    copy.take(role, high_watermark=40, log_start=start)
    assert copy.heard.told[-1] == ("taken", 40, 5, start)
    for seed in range(40):
        image = power_cut(copy.files, None, copy.heard.call, random.Random(seed))
        assert found(image, copy.config).log_start_offset >= start


def test_a_log_that_began_anew_below_its_kept_start_keeps_what_was_acknowledged(copy_of, power_cut):
    """A leader that was elected uncleanly ends below the log start in the checkpoint: all up to that would go at a start."""
    copy = copy_of()
    role = copy.partition.follow(7, 5)
    copy.take(role, batch(0, 20), high_watermark=20)
    copy.take(role, high_watermark=20, log_start=20)
    assert copy.heard.told[-1] == ("taken", 20, 5, 20)
    role = copy.partition.follow(8, 6)
    role.move_into(0, 10)
    role.settle(copy.heard)
    assert role.position.log_start_offset == 0
    copy.work()
    copy.take(role, batch(0, 10), batch(10, 3, epoch=6), high_watermark=10)
    assert copy.heard.told[-1][:2] == ("taken", 13)
    for seed in range(10):
        image = power_cut(copy.files, None, len(copy.files.journal), random.Random(seed))
        log = found(image, copy.config)
        assert (log.log_start_offset, log.log_end_offset) == (0, 13)
