"""A start waits for what the last run left in its logs: that is served from the disk. It waits for no copy that goes on."""

import asyncio
import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.replicas import directory_writer
from stratalog.broker.replicas.directories import Directories
from stratalog.hot.directory import LogDirectory
from stratalog.wire.errors import Corrupt
from tests.broker.replicas.writer_rig import Bench, Owner


class Copy(Owner):
    """A partition that is copied: there is always more as soon as it is on the disk."""

    def __init__(self, writer):
        super().__init__()
        self.writer, self.flushed = writer, 0

    def on_flushed(self):
        self.flushed += 1
        self.writer.enqueue(self)


class Waiting:
    """Syncs that end when the test says so."""

    def __init__(self):
        self.work = []

    def submit(self, run, *given):
        self.work.append((run, given))

    async def run(self):
        work, self.work = self.work, []
        for run, given in work:
            run(*given)
        await asyncio.sleep(0)


def recovered(bench, name="r"):
    """A log of the last run whose end is not on the disk."""
    owner = bench.owner(name)
    owner.dirty = True
    bench.writer.sync_together(owner)
    return owner


async def waits(bench):
    """Whether the start waits."""
    try:
        await asyncio.wait_for(Directories([SimpleNamespace(writer=bench.writer)], "c", 1).recovered(), 0.01)
    except TimeoutError:
        return True
    return False


async def test_a_start_does_not_wait_for_copies_that_go_on():
    """Those of two leaders left the writer no idle moment: clients came in when the load ended."""
    with ThreadPoolExecutor(2) as threads:
        bench = Bench(threads)
        copies = [bench.added(Copy(bench.writer)) for _ in range(2)]
        for one in copies:
            bench.writer.enqueue(one)
        owner = recovered(bench)
        async with asyncio.timeout(5):
            await Directories([SimpleNamespace(writer=bench.writer)], "c", 1).recovered()
        assert owner.heard == ["flushed"]
        before = [one.flushed for one in copies]
        await asyncio.sleep(0.01)
        assert all(one.flushed > count for one, count in zip(copies, before, strict=True))
        bench.writer.enqueue = lambda _owner: None
        await asyncio.sleep(0.01)


async def test_a_start_waits_for_the_sync_of_each_log_of_the_last_run():
    """A sync that began before a log came says nothing of it."""
    bench = Bench(Waiting())
    other = bench.owner()
    await bench.written(other)
    one, two = recovered(bench), recovered(bench)
    await bench.threads.run()
    assert other.heard[-1] == "flushed"
    assert await waits(bench)
    bench.threads.work.pop()
    await bench.threads.run()
    assert (one.heard, two.heard) == (["flushed"], [])
    assert await waits(bench)
    bench.writer.remove(two)
    assert not await waits(bench)


@pytest.mark.parametrize("kind", ["fails", "full", "nothing to sync"])
async def test_a_log_that_cannot_be_synced_holds_no_start_up(kind, monkeypatch):
    """Its directory is offline, or its disk is full: it is tried again, and its mark of an offline directory stays."""
    monkeypatch.setattr(directory_writer, "_SHORTAGE_WAIT_SECONDS", 60)
    bench = Bench(Waiting())
    owner = recovered(bench)
    assert await waits(bench)
    if kind == "full":
        owner.begin_error = OSError(errno.ENOSPC, "no room")
    owner.dirty = kind == "fails"
    bench.writer.begin_together()
    if kind == "fails":
        bench.writer.fail(OSError(errno.EIO, "broken"))
    assert not await waits(bench)
    assert bool(bench.writer.postponed) is (kind == "full")


def test_a_log_that_could_not_be_opened_after_a_power_cut_is_verified_when_it_can_be(broker, monkeypatch):
    """Its broker has stopped in order since, without having looked at it. The other one was closed, and is not read again."""
    for topic in ("bad", "good"):
        broker.create(topic)
        broker.produce(topic, b"v")
    broker.stop()
    data = Path(broker.directory, "data")
    (data / ".kafka_cleanshutdown").unlink()
    real = LogDirectory.open_log

    def open_log(directory, name, *arguments, **options):
        if name.topic == "bad":
            raise Corrupt("bad-0 is bad")
        return real(directory, name, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(LogDirectory, "open_log", open_log)
        broker.start()
        broker.stop()
    broker.start()
    checked = [broker.partition(topic).log.recovery.segments_checked for topic in ("bad", "good")]
    assert checked == [1, 0]
    assert broker.values("bad") == [b"v"]
    broker.restart()
    assert broker.partition("bad").log.recovery.segments_checked == 0
