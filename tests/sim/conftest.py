"""Processes that run seeds, and the texts of those that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from sim.__main__ import report
from sim.world import run_seed


@pytest.fixture(scope="module")
def failures() -> Iterator[Callable[[Iterable[int]], list[str]]]:
    """Runs seeds in two processes; what each failing one has to say."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:

        def run(seeds: Iterable[int]) -> list[str]:
            outcomes = pool.map(run_seed, seeds, chunksize=3)
            return [report(one, one.lines) for one in outcomes if one.problem is not None]

        yield run
