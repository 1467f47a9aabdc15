"""``python -m sim.raft SEED | FIRST-LAST``: run seeds; a failing one prints how it came to it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from sim.raft.world import Outcome, run_seed

__all__ = ["main"]


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main(arguments: list[str] | None = None) -> int:
    """Run; exit code 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m sim.raft", description=__doc__)
    parser.add_argument("seeds", type=_seeds, help="a seed, or a range such as 0-999")
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    parser.add_argument("--lines", type=int, default=60, help="how many of the last events a failing seed prints")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args(arguments)
    begun = time.perf_counter()
    if given.trace or given.processes == 1:
        out = print if given.trace else None
        outcomes: Iterable[Outcome] = (run_seed(seed, lines=given.lines, out=out) for seed in given.seeds)
        results = [_tell(outcome, trace=given.trace) for outcome in outcomes]
    else:
        with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
            results = [_tell(outcome, trace=False) for outcome in pool.map(run_seed, given.seeds, chunksize=8)]
    failed = sum(outcome.problem is not None for outcome in results)
    steps, epochs = sum(one.steps for one in results), sum(one.epochs for one in results)
    committed = sum(one.committed for one in results)
    seconds = time.perf_counter() - begun
    print(
        f"{len(results)} seeds, {failed} failed; {steps} steps, {epochs} epochs, {committed} records; {seconds:.1f} s"
    )
    return int(failed > 0)


def _tell(outcome: Outcome, *, trace: bool) -> Outcome:
    if outcome.problem is not None:
        text = [] if trace else outcome.lines
        again = f"again: python -m sim.raft {outcome.seed} --trace"
        print("\n".join([*text, f"seed {outcome.seed}: {outcome.problem}", again]))
    return outcome


if __name__ == "__main__":
    sys.exit(main())
