"""``python -m bench.versus [--cells a,b]``: the table beside Apache Kafka; exit code 1 if a target is missed."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.outcome import Outcome
from bench.settings import Settings, touch_memory
from bench.versus import cluster, lifetimes, throughput
from bench.versus.arena import Arena
from bench.versus.kafka import kafka_jars
from bench.versus.table import keep, measured, table

_TOUCHED_BYTES = 3 << 30
_ALONE = {**lifetimes.CELLS, **cluster.CELLS}
"""Cells with brokers of their own."""
_ON_DISK = frozenset({"durable", *cluster.CELLS})
"""Cells with files that are synced: these have to be on a disk, wherever the rest is."""


def main(arguments: list[str] | None = None) -> int:
    """Run the cells that were asked for."""
    names = [*throughput.CELLS, *_ALONE]
    parser = argparse.ArgumentParser(prog="python -m bench.versus", description=__doc__)
    parser.add_argument("--cells", default="", help=f"names or beginnings of names, of: {', '.join(names)}")
    parser.add_argument("--seconds", type=float, default=1.5, help="measured time of one raw run")
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each broker; one more warms up")
    parser.add_argument("--on-disk", action="store_true", help="logs on a real disk; without it in memory")
    given = parser.parse_args(arguments)
    words = [word for word in given.cells.split(",") if word]
    chosen = [name for name in names if not words or any(name.startswith(word) for word in words)]
    if not chosen:
        parser.error(f"no cell is called {given.cells}; there are {', '.join(names)}")
    settings = Settings(seconds=given.seconds, repetitions=given.repetitions)
    kafka_jars()
    touch_memory(_TOUCHED_BYTES)
    where = "disk" if given.on_disk or _ON_DISK.issuperset(chosen) else "memory"
    outcomes = _run(chosen, settings, settings.disk if given.on_disk else settings.memory)
    keep(outcomes, where)
    print(table(outcomes, f"stratalog beside Apache Kafka, logs in {where}"))
    return 0 if all(one.held for one in outcomes) else 1


def _run(chosen: list[str], settings: Settings, place: Path) -> list[Outcome]:
    outcomes: list[Outcome] = []
    together = [name for name in chosen if name in throughput.CELLS]
    if together:
        with settings.folder(place) as folder, ExitStack() as stack:
            arena = Arena.open(folder, settings.repetitions, stack)
            for name in together:
                outcomes += measured(name, partial(throughput.CELLS[name], arena, settings.seconds))
    for name in chosen:
        if name in _ALONE:
            with settings.folder(settings.disk if name in _ON_DISK else place) as folder:
                outcomes += measured(name, partial(_ALONE[name], folder, settings.repetitions))
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
