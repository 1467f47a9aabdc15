"""``python -m bench [--cells a,b]``: measure, print the table, write the results; exit code 1 if a floor is missed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.catalogue import CELLS, every_outcome, selected
from bench.cell import Cell
from bench.cells import primitives
from bench.outcome import Outcome
from bench.report import render, render_primitives, write
from bench.settings import Settings, real_disk, touch_memory
from stratalog.wire.errors import KafkaError

_TOUCHED_BYTES = 2 << 30


def main(arguments: list[str] | None = None) -> int:
    """Run the cells that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--cells", default="", help=f"names or beginnings of names, of: {', '.join(CELLS)}")
    parser.add_argument("--seconds", type=float, default=1.5, help="measured time of one run")
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each kind, at least")
    parser.add_argument("--paced-seconds", type=float, default=30.0, help="measured time of one run at a fixed rate")
    parser.add_argument("--paced-repetitions", type=int, default=5, help="runs of each kind at a fixed rate")
    parser.add_argument("--disk", type=Path, default=None, help="a directory on a real disk")
    given = parser.parse_args(arguments)
    settings = Settings(
        seconds=given.seconds,
        repetitions=given.repetitions,
        paced_seconds=given.paced_seconds,
        paced_repetitions=given.paced_repetitions,
        disk=given.disk or real_disk(),
    )
    try:
        names = selected(given.cells)
    except ValueError as error:
        parser.error(str(error))
    touch_memory(_TOUCHED_BYTES)
    known = primitives.measure(settings)
    print(render_primitives(known.as_details()), file=sys.stderr, flush=True)
    predicted = primitives.predict(known)
    outcomes: list[Outcome] = []
    for name in names:
        print(f"{name}:", file=sys.stderr, flush=True)
        outcomes.extend(_measured(CELLS[name], settings))
    for outcome in outcomes:
        outcome.predicted = predicted.get(outcome.cell)
    write(outcomes, every_outcome(), known.as_details())
    print(render(outcomes))
    return 0 if all(outcome.held for outcome in outcomes) else 1


def _measured(cell: Cell, settings: Settings) -> list[Outcome]:
    """The cell's lines; what goes wrong in one cell is said in its lines and does not keep the others from running."""
    try:
        return cell.measure(settings)
    except (SystemExit, KafkaError, OSError) as error:
        print(f"  {error}", file=sys.stderr, flush=True)
        return [line.not_measured(str(error).splitlines()[0]) for line in cell.lines]


if __name__ == "__main__":
    sys.exit(main())
