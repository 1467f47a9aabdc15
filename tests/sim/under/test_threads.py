"""Threads in virtual time: jobs, fibers that wait on the way, locks between them, and their death."""

import asyncio

import pytest

from sim.under.process import Process, current_process
from sim.under.threads import Fiber, VirtualLock, VirtualTimer, sleep


def test_jobs_take_time_and_run_side_by_side(loop, run):
    """As many as the pool has threads; what they say is heard on the loop, in order."""
    heard = []

    async def main():
        pool = loop.spawner.threads(2, "pool")
        for number in range(6):
            pool.submit(lambda number=number: loop.call_soon_threadsafe(heard.append, number))
        assert heard == []
        await asyncio.sleep(1)

    run(main)
    assert sorted(heard) == list(range(6))
    assert heard != []


def test_blocking_on_a_job_runs_it(loop, run):
    """The loop stands still meanwhile, as it does for a real thread."""

    async def main():
        pool = loop.spawner.threads(1, "pool")
        done = []
        pool.submit(done.append, 1)
        assert pool.submit(lambda: done.append(2) or "two").result() == "two"
        assert done == [1, 2]
        assert isinstance(pool.submit(lambda: 1 / 0).exception(), ZeroDivisionError)

    run(main)


def test_the_end_of_a_pool(loop, run):
    """Waiting for it ends its jobs; cancelled ones are never run; nothing is taken any more."""

    async def main():
        done = []
        patient, hasty = loop.spawner.threads(1, "patient"), loop.spawner.threads(1, "hasty")
        for number in range(3):
            patient.submit(done.append, number)
            hasty.submit(done.append, -number)
        patient.shutdown(wait=True)
        assert done == [0, 1, 2]
        hasty.shutdown(wait=False, cancel_futures=True)
        await asyncio.sleep(1)
        assert done == [0, 1, 2, 0]
        with pytest.raises(RuntimeError):
            patient.submit(print)

    run(main)


def test_timers_of_fibers_run_in_virtual_time(loop, run):
    """Unless they are cancelled; no real thread is started."""
    heard = []

    async def main():
        def work():
            kept, cancelled = (VirtualTimer(5.0, lambda name=name: heard.append((name, loop.time()))) for name in "ab")
            kept.start()
            cancelled.start()
            sleep(1)
            cancelled.cancel()
            cancelled.cancel()

        began = loop.time()
        Fiber(loop, current_process(), work, lambda *_: None)
        await asyncio.sleep(4.9)
        assert heard == []
        await asyncio.sleep(1)
        assert [(name, round(at - began)) for name, at in heard] == [("a", 5)]

    run(main)


def test_to_thread_is_virtual_too(loop, run):
    """Work that asyncio gives to its default executor takes virtual time only."""

    async def main():
        assert await asyncio.to_thread(lambda: 6 * 7) == 42

    run(main)
    assert 0 < loop.time() < 1


def test_a_fiber_sleeps_in_virtual_time(loop, run):
    """In the middle of what it does; others run meanwhile."""
    seen = []

    def work(name, seconds):
        for _ in range(2):
            sleep(seconds)
            seen.append((name, round(loop.time(), 3)))
        return name

    async def main():
        process, ended = Process("worker"), []
        for name, seconds in (("a", 3), ("b", 2)):
            Fiber(loop, process, lambda n=name, s=seconds: work(n, s), lambda result, error: ended.append(result))
        await asyncio.sleep(10)
        assert ended == ["b", "a"]

    run(main)
    assert seen == [("b", 2), ("a", 3), ("b", 4), ("a", 6)]


def test_a_fiber_dies_with_its_process(loop, run):
    """Where it sleeps; nothing is reported, and its thread serves others."""
    seen = []

    def work():
        try:
            sleep(5)
            seen.append("went on")
        finally:
            seen.append("unwound")
            sleep(1)

    async def main():
        process = Process("worker")
        Fiber(loop, process, work, lambda *_: seen.append("reported"))
        await asyncio.sleep(1)
        process.kill()
        Fiber(loop, Process("other"), lambda: current_process().name, lambda result, _: seen.append(result))
        await asyncio.sleep(10)

    run(main)
    assert seen == ["unwound", "other"]


def test_an_error_of_a_fiber_is_reported(loop, run):
    """To the same callable."""
    seen = []

    async def main():
        Fiber(loop, Process("worker"), lambda: 1 / 0, lambda _, error: seen.append(type(error)))
        await asyncio.sleep(1)

    run(main)
    assert seen == [ZeroDivisionError]


def test_a_lock_lets_time_pass(loop, run):
    """One fiber at a time; the loop itself never waits for one."""
    lock, inside, seen = VirtualLock(), [], []

    def work(number):
        with lock:
            inside.append(number)
            assert len(inside) == 1
            sleep(1)
            inside.remove(number)
        seen.append(number)

    async def main():
        for number in range(3):
            Fiber(loop, Process(str(number)), lambda n=number: work(n), lambda *_: None)
        await asyncio.sleep(0.5)
        assert lock.locked()
        assert not lock.acquire(blocking=False)
        with pytest.raises(RuntimeError, match="waits for a lock"):
            lock.acquire()
        await asyncio.sleep(9)

    run(main)
    assert sorted(seen) == [0, 1, 2]


def test_the_threads_of_a_process_with_a_slow_disk_take_longer(loop, run):
    """So many times."""

    async def main():
        pool = loop.spawner.threads(1, "pool")
        current_process().thread_delay = 10_000.0
        begun = loop.time()
        await asyncio.wrap_future(pool.submit(lambda: None), loop=loop)
        assert loop.time() - begun >= 1.0

    run(main)
