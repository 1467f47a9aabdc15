"""The command line of a simulation: which seeds, in how many processes, and how a failing one is repeated."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

__all__ = ["Outcome", "Simulation"]

_CHUNK: Final = 8
_PROGRESS_EVERY_S: Final = 60.0
_GC_THRESHOLDS: Final = (50_000, 20, 50)
"""Most of what a run makes is no part of a cycle: rare looks for cycles cost less."""


class Outcome(Protocol):
    """How a run ended: ``problem`` is None if nothing was wrong."""

    seed: int
    problem: str | None
    lines: list[str]
    """The last events of a run that failed."""


Ended = TypeVar("Ended", bound=Outcome)


class Simulation(Struct, Generic[Ended], frozen=True):
    """A simulation that is run as ``python -m <module> SEED | FIRST-LAST``, by ``<target> SEED=n``."""

    module: str
    target: str
    run_seed: Callable[..., Ended]
    """Takes a seed, ``lines`` to keep, and ``out``, which gets every line of a trace."""
    total: Callable[[Sequence[Ended]], str]
    """Adds up what the runs have done, for the last line."""

    def report(self, outcome: Ended, lines: Iterable[str]) -> str:
        """The report of a failing seed."""
        text = [*lines, *getattr(outcome, "errors", ()), f"seed {outcome.seed}: {outcome.problem}"]
        text.append(
            f"again: {self.target} SEED={outcome.seed}          with everything: ... SEED={outcome.seed} TRACE=1"
        )
        return "\n".join(text)

    def main(self, arguments: list[str] | None = None) -> int:
        """Run the seeds that the command line names; exit code 1 if one failed."""
        given = _parsed(self.module, arguments)
        begun = time.perf_counter()
        outcomes: list[Ended] = []
        told = begun
        for outcome in self._runs(given):
            outcomes.append(outcome)
            if outcome.problem is not None:
                print(self.report(outcome, [] if given.trace else outcome.lines), flush=True)
            elif given.trace:
                print(f"seed {outcome.seed}: well, {self.total([outcome])}")
            if time.perf_counter() - told > _PROGRESS_EVERY_S:
                told = time.perf_counter()
                print(f"... {_speed(outcomes, told - begun)}", flush=True)
        failed = [outcome.seed for outcome in outcomes if outcome.problem is not None]
        print(f"{_speed(outcomes, time.perf_counter() - begun)}; {self.total(outcomes)}")
        if failed:
            print(f"failed: {' '.join(map(str, failed))}")
        return int(bool(failed))

    def _runs(self, given: argparse.Namespace) -> Iterator[Ended]:
        """The outcomes in the order of their seeds, each as soon as it is there."""
        if given.trace or given.processes == 1 or len(given.seeds) == 1:
            out = print if given.trace else None
            yield from (self.run_seed(seed, lines=given.lines, out=out) for seed in given.seeds)
            return
        with ProcessPoolExecutor(
            given.processes, mp_context=get_context("spawn"), initializer=gc.set_threshold, initargs=_GC_THRESHOLDS
        ) as pool:
            chunk = max(1, min(_CHUNK, len(given.seeds) // (8 * given.processes)))
            yield from pool.map(partial(_named, self.run_seed, given.lines), given.seeds, chunksize=chunk)


def _named(run_seed: Callable[..., Any], lines: int, seed: int) -> Any:
    """Run a seed in another process; an exception of the simulation itself names the seed."""
    try:
        return run_seed(seed, lines=lines)
    except Exception as error:
        raise RuntimeError(f"the simulation of seed {seed} broke: {error!r}") from error


def _speed(outcomes: Sequence[Outcome], seconds: float) -> str:
    failed = sum(outcome.problem is not None for outcome in outcomes)
    return f"{len(outcomes)} seeds, {failed} failed, {seconds:.1f} s, {len(outcomes) / max(seconds, 0.001):.1f} seeds/s"


def _parsed(module: str, arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description="Run seeds of the simulation.")
    parser.add_argument("seeds", type=_seeds, help="a seed, or a range such as 0-999")
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    parser.add_argument("--lines", type=int, default=60, help="how many of the last events a failing seed prints")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="by default one a core")
    return parser.parse_args(sys.argv[1:] if arguments is None else arguments)


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
