"""Processes that run seeds, and a loop with virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from sim.__main__ import report
from sim.loop import VirtualLoop
from sim.machine import SimMachine
from sim.process import Process
from sim.trace import Trace
from sim.world import run_seed


@pytest.fixture(scope="module")
def failures() -> Iterator[Callable[[Iterable[int]], list[str]]]:
    """Runs seeds in two processes; what each failing one has to say."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:

        def run(seeds: Iterable[int]) -> list[str]:
            outcomes = pool.map(run_seed, seeds, chunksize=3)
            return [report(one, one.lines) for one in outcomes if one.problem is not None]

        yield run


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    """A loop with virtual time, a network and a machine."""
    trace = Trace()
    loop = VirtualLoop(random.Random(1), trace)
    trace.now = loop.time
    loop.machine = SimMachine(loop)
    yield loop
    loop.close()


@pytest.fixture
def run(loop) -> Callable:
    """Runs a coroutine function in a process of its own until it is done."""

    def run(main: Callable, *args):
        return loop.run_until_complete(Process("main").spawn(loop, main(*args)))

    return run
