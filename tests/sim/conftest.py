"""Runs of seeds, and a loop with virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

import pytest

from sim.__main__ import BROKER
from sim.trace import Trace
from sim.under.loop import VirtualLoop
from sim.under.process import Process
from sim.under.spawner import SimSpawner
from sim.world import run_seed


@pytest.fixture
def failures() -> Callable[[Iterable[int]], list[str]]:
    """Runs seeds one after the other; returns a report for each that fails."""

    def run(seeds: Iterable[int]) -> list[str]:
        outcomes = map(run_seed, seeds)
        return [BROKER.report(one, one.lines) for one in outcomes if one.problem is not None]

    return run


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    """A loop with virtual time, a network and a spawner."""
    trace = Trace()
    loop = VirtualLoop(random.Random(1), trace)
    trace.now = loop.time
    loop.spawner = SimSpawner(loop)
    yield loop
    loop.close()


@pytest.fixture
def run(loop) -> Callable:
    """Runs a coroutine function in a process of its own until it is done."""

    def run(main: Callable, *args):
        return loop.run_until_complete(Process("main").spawn(loop, main(*args)))

    return run
