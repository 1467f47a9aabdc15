"""Virtual time: the clock jumps, order is asyncio's where asyncio promises one, and the seed's where it does not."""

import asyncio
import random

import pytest

from sim.trace import Trace
from sim.under.loop import Deadlock, VirtualLoop
from sim.under.process import Process


def test_sleeping_takes_virtual_time_only(loop, run):
    """An hour is over at once, and timers come in the order of their times."""
    seen = []

    async def main():
        loop.call_later(3600, seen.append, "late")
        loop.call_later(1800, seen.append, "early")
        await asyncio.sleep(7200)

    run(main)
    assert seen == ["early", "late"]
    assert loop.time() == 7200


def test_callbacks_called_soon_come_in_order(loop, run):
    """First in, first out, before any timer."""
    seen = []

    async def main():
        loop.call_later(0, seen.append, "timer")
        for number in range(5):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(1)

    run(main)
    assert seen == [0, 1, 2, 3, 4, "timer"]


def order_of_ten_timers(seed: int) -> list[int]:
    """The order in which ten timers of the same time run."""
    loop, seen = VirtualLoop(random.Random(seed), Trace()), []
    for number in range(10):
        loop.call_at(5, seen.append, number)
    loop.run_until_complete(asyncio.wait_for(asyncio.sleep(6), 10))
    loop.close()
    return seen


@pytest.mark.filterwarnings("ignore:coroutine")
def test_timers_of_one_time_come_in_an_order_of_the_seeds():
    """The same for the same seed; asyncio promises none."""
    orders = [order_of_ten_timers(seed) for seed in (1, 1, 2, 3)]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) == 3


def test_timers_that_are_late_keep_their_order(loop, run):
    """Time that passed within a step does not mix them."""
    seen = []

    async def main():
        for number in range(10):
            loop.call_later(0.1 + number / 100, seen.append, number)
        loop.call_soon(loop.pass_time, 5)
        await asyncio.sleep(1)

    run(main)
    assert seen == list(range(10))


def test_waiting_for_ever_is_reported(loop, run):
    """No event is left that could wake the waiting task."""

    async def main():
        await loop.create_future()

    with pytest.raises(Deadlock):
        run(main)
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False


def test_a_killed_process_never_runs_again(loop, run):
    """Neither its timers nor its tasks, and it cleans nothing up."""
    seen = []
    victim = Process("victim")

    async def live():
        try:
            while True:
                seen.append(loop.time())
                await asyncio.sleep(1)
        finally:
            seen.append("cleaned up")

    async def main():
        victim.spawn(loop, live())
        await asyncio.sleep(2.5)
        victim.kill()
        await asyncio.sleep(5)

    run(main)
    assert seen == [0, 1, 2]
    assert len(victim.tasks) == 1
    victim.bury()


def test_an_exception_never_retrieved_is_kept(loop, run):
    """It fails the run that it belongs to."""

    async def main():
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    run(main)
    assert "ZeroDivisionError" in loop.failures[0]


def test_every_event_is_followed_by_a_look(loop, run):
    """With the process that it belonged to."""
    looks = []
    loop.after_event = looks.append

    async def main():
        await asyncio.sleep(1)

    run(main)
    assert {process.name for process in looks} == {"main"}


def test_a_frozen_process_stands_still_and_goes_on_in_order(loop, run):
    """As after its machine was suspended: what has come meanwhile happens then, late."""
    seen = []

    async def ticks(name):
        for number in range(4):
            await asyncio.sleep(1)
            seen.append((name, number, loop.time()))

    async def main():
        process = Process("frozen")
        process.spawn(loop, ticks("frozen"))
        await asyncio.sleep(1.5)
        process.frozen = True
        await asyncio.sleep(10)
        loop.thaw(process)
        await asyncio.sleep(5)

    run(main)
    assert seen == [("frozen", 0, 1.0), ("frozen", 1, 11.5), ("frozen", 2, 12.5), ("frozen", 3, 13.5)]
