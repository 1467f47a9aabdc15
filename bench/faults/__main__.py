"""``python -m bench.faults``: faults on real nodes with replicas, under clients that remember every answer; exit code 1 for a violation.

Each run has a cluster of its own, all the workloads side by side, and one kind of fault, or a pair of them. In the end all is
mended: acknowledged records have to be read once and in order, replicas and archive have to be equal.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import Final

from bench.faults.answers import ARE_LOST
from bench.faults.campaign import WORKLOADS, Run, run
from bench.faults.faults import FAULTS
from bench.faults.table import append_run, read_runs, table
from bench.settings import Settings

_ALL: Final = "all"
_PAIRS: Final = "pairs"

UNSYNCED: Final = {"log.flush.interval.messages": str(2**63 - 1)}
"""Kafka's default: an acknowledged record may be in page caches only."""


def _named(words: str) -> list[str]:
    """The faults that ``--faults`` names. Raises ``SystemExit`` for one that is not known."""
    names: list[str] = []
    for word in words.split(","):
        if word == _ALL:
            names += FAULTS
        elif word == _PAIRS:
            names += [f"{one}+{other}" for one, other in itertools.combinations_with_replacement(FAULTS, 2)]
        else:
            names.append(word)
    for name in names:
        for part in name.split("+"):
            if part not in FAULTS and part != "none":
                raise SystemExit(f"no fault is named {part!r}: {', '.join(FAULTS)}, none, all, pairs")
    return names


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("--faults", default="all,pairs", help="names with commas; a+b is a pair; all, pairs, none")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="those that run side by side")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults happen in each run")
    parser.add_argument(
        "--seed", type=int, default=0, help="the choices of faults and clients; times differ all the same"
    )
    parser.add_argument("--nodes", type=int, default=5, help="brokers, each a controller, too")
    parser.add_argument(
        "--budget", type=float, default=0.0, help="begin no other run after so many seconds; 0: all runs"
    )
    parser.add_argument("--unsynced", action="store_true", help="with Kafka's flush default, which may lose records")
    parser.add_argument("--must-fail", action="store_true", help="exit code 0 only if each run finds lost records")
    parser.add_argument("--folder", type=Path, default=None, help="where the nodes' files of failed runs are kept")
    parser.add_argument("--results", type=Path, default=None, help="a file to which each run is appended, for --table")
    parser.add_argument("--table", action="store_true", help="print the table of --results, and run none")
    return parser.parse_args(arguments)


def _one(given: argparse.Namespace, faults: str, workloads: Sequence[str]) -> Run:
    """One run; the files of one with violations stay."""
    parent = given.folder or Settings().memory
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"faults-{faults}-{given.seed}-", dir=parent))
    log = folder.with_suffix(".story")
    with log.open("w") as story:

        def say(line: str) -> None:
            print(line, file=story, flush=True)

        outcome = run(
            folder,
            faults,
            workloads,
            seed=given.seed,
            seconds=given.seconds,
            count=given.nodes,
            settings=UNSYNCED if given.unsynced else {},
            say=say,
        )
    if outcome.all_violations and not given.must_fail:
        print(f"  its files are in {folder}, its story in {log}")
    else:
        rmtree(folder, ignore_errors=True)
        log.unlink()
    return outcome


def _print(outcome: Run, taken: float) -> None:
    counts = ", ".join(f"{count} {name}" for name, count in sorted(outcome.counts.items()))
    acknowledged = sum(cell.acknowledged for cell in outcome.cells.values())
    gap = max((cell.longest_gap_seconds for cell in outcome.cells.values()), default=0.0)
    violations = outcome.all_violations
    print(
        f"{outcome.faults} (seed {outcome.seed}): {counts or 'no fault'}; {acknowledged} acknowledged, longest gap {gap:.1f} s, "
        f"{len(violations)} violations, {len(outcome.damage)} damaged at rest; {taken:.0f} s",
        flush=True,
    )
    for one in violations[:30]:
        print(f"  VIOLATION {one}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all that is asked for, and print the table."""
    given = _arguments(arguments)
    if given.table:
        print(table(read_runs(given.results)))
        return 0
    names, workloads = _named(given.faults), given.workloads.split(",")
    if unknown := set(workloads) - set(WORKLOADS):
        raise SystemExit(f"no workload is named {', '.join(unknown)}: {', '.join(WORKLOADS)}")
    if given.budget:
        random.Random(given.seed).shuffle(names)
    began, runs = time.monotonic(), []
    for name in names:
        if given.budget and time.monotonic() - began > given.budget:
            break
        at = time.monotonic()
        runs.append(_one(given, name, workloads))
        _print(runs[-1], time.monotonic() - at)
        if given.results is not None:
            append_run(given.results, runs[-1])
    print(table(runs))
    if given.must_fail:
        return 0 if all(any(ARE_LOST in said for said in one.all_violations) for one in runs) else 1
    return 1 if any(one.all_violations for one in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
