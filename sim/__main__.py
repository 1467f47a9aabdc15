"""``python -m sim SEED | FIRST-LAST``: run seeds; a failing one prints how it came to it and how to repeat it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from sim.world import Outcome, run_seed


def report(outcome: Outcome, lines: Iterable[str]) -> str:
    """The report of a failing seed."""
    text = [*lines, *outcome.errors, f"seed {outcome.seed}: {outcome.problem}"]
    text.append(f"again: make sim SEED={outcome.seed}          with everything: make sim SEED={outcome.seed} TRACE=1")
    return "\n".join(text)


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main(arguments: list[str] | None = None) -> int:
    """Run; exit code 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("seeds", type=_seeds, help="a seed, or a range such as 0-999")
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    parser.add_argument("--lines", type=int, default=60, help="how many of the last events a failing seed prints")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args(arguments)
    begun = time.perf_counter()
    if given.trace or len(given.seeds) == 1:
        outcomes: Iterable[Outcome] = (
            run_seed(seed, lines=given.lines, out=print if given.trace else None) for seed in given.seeds
        )
        failed = [_tell(outcome, trace=given.trace) for outcome in outcomes]
    else:
        with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
            failed = [_tell(outcome, trace=False) for outcome in pool.map(run_seed, given.seeds, chunksize=4)]
    seconds = time.perf_counter() - begun
    print(f"{len(failed)} seeds, {sum(failed)} failed, {seconds:.1f} s")
    return int(any(failed))


def _tell(outcome: Outcome, *, trace: bool) -> bool:
    if outcome.problem is not None:
        print(report(outcome, [] if trace else outcome.lines))
    elif trace:
        print(f"seed {outcome.seed}: well, {outcome.steps} steps, {outcome.seconds:.1f} s, trace {outcome.digest}")
    return outcome.problem is not None


if __name__ == "__main__":
    sys.exit(main())
