"""``python -m bench.versus [--cells a,b]``: the table beside Apache Kafka; exit code 1 if a target is missed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.outcome import Bound, Outcome, failed
from bench.report import RESULTS, machine
from bench.settings import Settings, touch_memory
from bench.versus import lifetimes, throughput
from bench.versus.arena import Arena
from bench.versus.kafka import kafka_jars
from stratalog.wire.errors import KafkaError

_TOUCHED_BYTES = 3 << 30
_HEAD = ("cell", "ratio", "target", "held", "stratalog", "kafka", "pairs")


def main(arguments: list[str] | None = None) -> int:
    """Run the cells that were asked for."""
    names = [*throughput.CELLS, *lifetimes.CELLS]
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
    where = "disk" if given.on_disk else "memory"
    outcomes = _run(chosen, settings, settings.disk if given.on_disk else settings.memory)
    _write(outcomes, where)
    print(_table(outcomes, where))
    return 0 if all(one.held for one in outcomes) else 1


def _run(chosen: list[str], settings: Settings, place: Path) -> list[Outcome]:
    outcomes: list[Outcome] = []
    together = [name for name in chosen if name in throughput.CELLS]
    if together:
        with settings.folder(place) as folder, ExitStack() as stack:
            arena = Arena.open(folder, settings.repetitions, stack)
            for name in together:
                outcomes += _measured(name, partial(throughput.CELLS[name], arena, settings.seconds))
    for name in chosen:
        if name in lifetimes.CELLS:
            # What is said to be durable has to be on a disk, wherever the rest is.
            with settings.folder(settings.disk if name == "durable" else place) as folder:
                outcomes += _measured(name, partial(lifetimes.CELLS[name], folder, settings.repetitions))
    return outcomes


def _measured(name: str, measure: Callable[[], list[Outcome]]) -> list[Outcome]:
    """The cell's lines; what goes wrong in one is said and does not keep the others from running."""
    print(f"{name}:", file=sys.stderr, flush=True)
    try:
        return measure()
    except (SystemExit, KafkaError, OSError) as error:
        print(f"  {error}", file=sys.stderr, flush=True)
        return [failed(name, "", Bound(">=", 0), str(error).splitlines()[0])]


def _table(outcomes: list[Outcome], where: str) -> str:
    rows: list[tuple[str, ...]] = [_HEAD]
    for one in outcomes:
        measured = "-" if one.measured is None else f"{one.measured:.3g}"
        details = [one.details.get(key, "-") for key in ("stratalog", "kafka")]
        figures = [f"{value:,.4g}" if isinstance(value, float) else str(value) for value in details]
        held = "yes" if one.held else "NO"
        rows.append((one.cell, measured, str(one.bound), held, *figures, str(one.details.get("pairs", one.note))))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"stratalog beside Apache Kafka, logs in {where}", *lines])


def _write(outcomes: list[Outcome], where: str) -> None:
    """Keep this run's lines beside those of other cells and of the other place."""
    path = RESULTS / "versus.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    lines = known.setdefault(where, {})
    for one in outcomes:
        lines[one.cell] = {**one.as_json(), **one.details}
    known["machine"] = machine()
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
