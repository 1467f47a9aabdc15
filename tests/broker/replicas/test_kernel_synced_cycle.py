"""The sync cycle of a log directory whose plain files are synced by the kernel's own workers."""

import asyncio
import errno
import os
from types import SimpleNamespace

import pytest

from tests.broker.replicas.writer_rig import Bench


class Owner:
    """A log, its ticket and its owner in one; ``descriptor`` is that of its only dirty file."""

    queued_bytes = 100

    def __init__(self, descriptor=None) -> None:
        self.log = self
        self.heard = []
        self.dirty = False
        self.only_file = None if descriptor is None else SimpleNamespace(fileno=lambda: descriptor)

    def write_queued(self):
        self.dirty = True

    def on_written(self):
        self.heard.append("written")

    def flush_due(self):
        return True

    def begin_sync(self):
        dirty, self.dirty = self.dirty, False
        return self if dirty else None

    def run(self):
        self.heard.append("run")

    def synced(self):
        self.heard.append("synced")

    def finish_sync(self, ticket):
        assert ticket is self
        assert self.heard[-1] in {"run", "synced"}

    def on_flushed(self):
        self.heard.append("flushed")

    def on_storage_failed(self, error):
        self.heard.append("failed")


class Kernel:
    """A `KernelSync` that ends syncs when the test says so; ``refused`` names what it does not take."""

    def __init__(self, refused=()) -> None:
        self.reading, self.writing = os.pipe()
        self.refused = refused
        self.added, self.started, self.results = [], [], []
        self.broken = None

    def fileno(self):
        return self.reading

    def add(self, descriptor, token):
        self.added.append((descriptor, token))

    def submit(self):
        added, self.added = self.added, []
        self.started += [one for one in added if one[0] not in self.refused]
        return [token for descriptor, token in added if descriptor in self.refused]

    def finished(self):
        os.read(self.reading, 100)
        if self.broken:
            raise self.broken
        results, self.results = self.results, []
        return results

    async def end(self, *descriptors, error=None):
        """These are done."""
        self.results += [(token, error) for descriptor, token in self.started if descriptor in descriptors]
        self.started = [one for one in self.started if one[0] not in descriptors]
        os.write(self.writing, b"x")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def close(self):
        os.close(self.reading)
        os.close(self.writing)
        self.reading = self.writing = -1


class KernelBench(Bench):
    def __init__(self, threads) -> None:
        self.kernel = Kernel(refused={9})
        super().__init__(threads, kernel_sync=self.kernel)

    def owner(self, descriptor=None) -> Owner:
        return self.added(Owner(descriptor))


@pytest.fixture
async def bench(sync_threads):
    bench = KernelBench(sync_threads)
    yield bench
    bench.writer.close()
    bench.writer.close()
    assert bench.kernel.reading == -1


async def test_plain_files_are_synced_by_the_kernel(bench):
    """Each log hears of its own file; the next cycle begins with the last one, by thread or kernel."""
    one, two, rolled = bench.owner(1), bench.owner(2), bench.owner()
    for owner in (one, two, rolled):
        bench.writer.enqueue(owner)
    await bench.turn()
    assert [descriptor for descriptor, _ in bench.kernel.started] == [1, 2]
    assert len(bench.threads.waiting) == 1
    await bench.kernel.end(2)
    assert two.heard == ["written", "synced", "flushed"]
    bench.writer.enqueue(two)
    await bench.turn()
    await bench.threads.run()
    assert rolled.heard == ["written", "run", "flushed"]
    assert bench.writer.sync_cycles == 1
    await bench.kernel.end(1)
    assert one.heard[-1] == "flushed"
    assert bench.writer.sync_cycles == 2
    assert not bench.writer.idle
    await bench.kernel.end(2)
    assert two.heard.count("flushed") == 2
    assert bench.writer.idle


async def test_a_thread_syncs_files_the_kernel_does_not_take(bench):
    """The cycle is complete only with it."""
    taken, refused = bench.owner(1), bench.owner(9)
    bench.writer.enqueue(taken)
    bench.writer.enqueue(refused)
    await bench.turn()
    await bench.kernel.end(1)
    assert not bench.writer.idle
    await bench.threads.run()
    assert refused.heard == ["written", "run", "flushed"]
    assert bench.writer.idle


async def test_a_sync_that_fails_in_the_kernel_takes_the_directory_offline(bench):
    """Its log is not told that it is on disk, nor is another one later; nothing is tried again."""
    bad, other = bench.owner(1), bench.owner(2)
    bench.writer.enqueue(bad)
    bench.writer.enqueue(other)
    await bench.turn()
    await bench.kernel.end(1, error=OSError(errno.EIO, "broken"))
    assert [error.errno for error in bench.failures] == [errno.EIO]
    await bench.kernel.end(2)
    for owner in (bad, other):
        assert "flushed" not in owner.heard
        assert owner.heard.count("failed") == 1
    assert bench.threads.waiting == bench.kernel.started == bench.kernel.added == []


async def test_a_kernel_that_does_not_tell_what_it_synced_is_a_failure(bench):
    """It is unknown then what is on disk."""
    owner = bench.owner(1)
    bench.writer.enqueue(owner)
    await bench.turn()
    bench.kernel.broken = OSError(errno.EINVAL, "no such queue")
    await bench.kernel.end(1)
    assert bench.failures == [bench.kernel.broken]
    assert owner.heard[-1] == "failed"


async def test_a_log_let_go_while_the_kernel_syncs_hears_nothing_more(bench):
    """The others do, and the next cycle begins."""
    gone, other = bench.owner(1), bench.owner(2)
    bench.writer.enqueue(gone)
    await bench.turn()
    bench.writer.enqueue(other)
    await bench.turn()
    bench.writer.remove(gone)
    await bench.kernel.end(1)
    await bench.kernel.end(2)
    assert "flushed" not in gone.heard
    assert other.heard[-1] == "flushed"
    assert bench.writer.idle


async def test_a_mistake_at_the_end_of_a_sync_stops_no_other_log(bench):
    """The logs called after it, and the next cycle, go on."""
    one, two = bench.owner(1), bench.owner(2)

    def mistaken():
        raise RuntimeError("answered twice")

    one.on_flushed = two.on_flushed = mistaken
    third = bench.owner(3)
    for owner in (one, third, two):
        bench.writer.enqueue(owner)
    await bench.turn()
    bench.writer.enqueue(third)
    await bench.turn()
    await bench.kernel.end(1, 2, 3)
    assert third.heard.count("flushed") == 1
    assert bench.writer.sync_cycles == 2
    await bench.kernel.end(3)
    assert third.heard.count("flushed") == 2
    assert bench.writer.idle
