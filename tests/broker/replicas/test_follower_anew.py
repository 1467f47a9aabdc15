"""A copy that begins anew meets a shortage for one call: it goes on as soon as there is room."""

import asyncio
import errno
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.runtime.tick import Tick
from stratalog.hot.config import LONG_MAX, LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.leader_rig import Bench
from tests.broker.replicas.test_follower import LEADER, Heard, batch, data, leading


class Shortage(RealFilesystem):
    """No descriptor is free for one call."""

    left = None
    """So many calls before that one."""

    def _count(self):
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise OSError(errno.EMFILE, "Too many open files")

    def open_append(self, path):
        self._count()
        return super().open_append(path)

    def sync_directory(self, path):
        self._count()
        super().sync_directory(path)


async def until(condition):
    """Wait a moment for what a thread does."""
    for _ in range(100):
        if condition():
            return
        await asyncio.sleep(0.005)


async def beginning_anew(path, calls, snapshot):
    """Whether there are so many calls; the log's end and flushed offset, and the partition's mark."""
    files, loop, failures = Shortage(), asyncio.get_running_loop(), []
    config = LogConfig(flush_messages=1)
    log = Log.open(f"{path}/t-0", TopicPartition("t", 0), b"i" * 16, config, files=files, now_ms=0, clean=True)
    with ThreadPoolExecutor(1) as threads:
        writer = DirectoryWriter(
            path, loop=loop, tick=Tick(loop), sync_threads=threads, on_failed=lambda *one: failures.append(one)
        )
        clock = SimpleNamespace(wall_ms=lambda: 1_700_000_000_000, monotonic=loop.time)
        partition = Partition(log, directory=writer, high_watermark=0, rework=None, clock=clock)
        heard, role = Heard(), partition.follow(7, 5)
        role.take(data(batch(0, 3)), heard)
        await until(lambda: log.flushed_offset == 3)

        def begin():
            if snapshot is None:
                role.move_into(100, 200)
            else:
                role.begin_behind(100, [], snapshot, 0)
            role.settle(heard)

        files.left = calls
        begin()
        was_stopped, files.left = files.left is None, None
        if role.position.offset < 100:  # the leader says so again
            writer.retry_refused()
            begin()
        mark = partition.high_watermark
        writer.retry_refused()
        role.take(data(batch(100, 2), log_start=100), heard)
        await until(lambda: log.flushed_offset == 102)
        found = log.log_end_offset, log.flushed_offset, mark, failures
        partition.close()
        log.abandon()
    return was_stopped, found


@pytest.mark.parametrize(
    "snapshot", [None, ProducerStateManager().to_bytes()], ids=["behind deleted", "behind archive"]
)
async def test_a_copy_that_begins_anew_goes_on_after_a_shortage_in_any_call(tmp_path, snapshot):
    """In one it took no record until the next start, in another it never told that it had them on the disk."""
    calls = 0
    while True:
        (tmp_path / str(calls)).mkdir()
        was_stopped, found = await beginning_anew(str(tmp_path / str(calls)), calls, snapshot)
        assert found == (102, 102, 100, []), calls
        if not was_stopped:
            break
        calls += 1
    assert calls > 5


@pytest.mark.parametrize("tiered", [True, False])
def test_a_log_that_begins_anew_lets_its_segments_go_a_few_at_a_time(tmp_path, monkeypatch, tiered):
    """Each name costs a sync of the directory, and some hundred at once would stop the loop for seconds."""
    synced = []
    monkeypatch.setattr(RealFilesystem, "sync_directory", lambda _files, path: synced.append(path))
    bench = Bench(str(tmp_path / "t-0"), remote_storage_enable=tiered)
    for _ in range(30):
        leading(bench, 1)
        bench.partition.log.roll()
    bench.partition.log.sync()
    role = bench.partition.follow(LEADER, 6)
    counts, more = [], True
    while more:
        before = len(synced)
        more = role.evict_below(LONG_MAX)
        counts.append(len(synced) - before)
    before = len(synced)
    if tiered:
        role.begin_behind(50, (), None, 3)
    else:
        role.move_into(50, 60)
    counts.append(len(synced) - before)
    log = bench.partition.log
    assert (log.local_log_start_offset, log.log_end_offset) == (50, 50)
    assert len(counts) > 5
    assert max(counts) < 12


def test_a_role_that_has_ended_lets_no_segment_go(tmp_path):
    """Its log is led here, perhaps."""
    bench = Bench(str(tmp_path / "t-0"), remote_storage_enable=True)
    leading(bench, 1)
    bench.partition.log.roll()
    role = bench.partition.follow(LEADER, 6)
    bench.partition.resign()
    assert not role.evict_below(LONG_MAX)
    assert bench.partition.log.local_log_start_offset == 0
