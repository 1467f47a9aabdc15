"""The life of the cleaner's worker process, in virtual time."""

import asyncio
import random

import pytest

from sim.trace import Trace
from sim.under.loop import VirtualLoop
from stratalog.broker.workers.cleaner_process import REST_SECONDS, CleanerProcess


class Spawned:
    """Workers that note their end."""

    def __init__(self, start):
        self.start, self.ended = start, False

    async def close(self):
        self.ended = True


class Spawner:
    """Starts them."""

    def __init__(self):
        self.spawned = []

    def workers(self, name, start):
        assert name == "cleaner"
        self.spawned.append(Spawned(start))
        return self.spawned[-1]


@pytest.fixture
def one():
    """A process, and ``later`` for a call and some seconds after it."""
    loop, spawner = VirtualLoop(random.Random(0), Trace()), Spawner()

    class One:
        process = CleanerProcess(spawner)
        spawned = spawner.spawned

        @staticmethod
        def later(call, seconds=0.0):
            async def turns():
                result = call()
                if asyncio.iscoroutine(result):
                    await result
                await asyncio.sleep(seconds)

            loop.run_until_complete(turns())

    yield One()
    loop.close()


def test_cleanings_that_follow_each_other_have_one_process(one):
    """A rest that is too short ends nothing."""
    for _ in range(3):
        one.later(lambda: one.process.begin(2))
        one.later(one.process.rest, REST_SECONDS - 1)
    assert [(each.start.threads, each.ended) for each in one.spawned] == [(2, False)]


def test_a_process_that_rests_ends_and_the_next_cleaning_has_another(one):
    """Its memory goes with it."""
    one.later(lambda: one.process.begin(1))
    one.later(one.process.rest, REST_SECONDS + 1)
    assert (one.spawned[0].ended, one.process.workers) == (True, None)
    one.later(lambda: one.process.begin(1), 2 * REST_SECONDS)
    assert [each.ended for each in one.spawned] == [True, False]


def test_closing_ends_a_process_that_rests_or_works(one):
    """A rest that was to come does nothing afterwards, and one without a process either."""
    one.later(one.process.rest, REST_SECONDS + 1)
    one.later(lambda: one.process.begin(1))
    one.later(one.process.rest)
    one.later(one.process.close, REST_SECONDS + 1)
    one.later(one.process.close)
    assert [each.ended for each in one.spawned] == [True]
