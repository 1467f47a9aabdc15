"""The table of a comparison on the terminal, and its lines in ``results/versus.json``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from bench.outcome import Bound, Outcome, failed
from bench.report import RESULTS, machine
from stratalog.wire.errors import KafkaError

__all__ = ["keep", "measured", "table"]

_HEAD = ("cell", "ratio", "target", "held", "stratalog", "kafka", "pairs")


def measured(name: str, measure: Callable[[], list[Outcome]]) -> list[Outcome]:
    """The cell's lines; what goes wrong in one is said and does not keep the others from running."""
    print(f"{name}:", file=sys.stderr, flush=True)
    try:
        return measure()
    except (SystemExit, KafkaError, OSError) as error:
        print(f"  {error}", file=sys.stderr, flush=True)
        return [failed(name, "", Bound(">=", 0), str(error).splitlines()[0])]


def table(outcomes: list[Outcome], title: str) -> str:
    """The lines under each other, with the figures of both sides and the ratios of all pairs."""
    rows: list[tuple[str, ...]] = [_HEAD]
    for one in outcomes:
        ratio = "-" if one.measured is None else f"{one.measured:.3g}"
        details = [one.details.get(key, "-") for key in ("stratalog", "kafka")]
        figures = [f"{value:,.4g}" if isinstance(value, float) else str(value) for value in details]
        held = "yes" if one.held else "NO"
        rows.append((one.cell, ratio, str(one.bound), held, *figures, str(one.details.get("pairs", one.note))))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([title, *lines])


def keep(outcomes: list[Outcome], section: str) -> None:
    """Keep this run's lines beside those of other cells and of other sections."""
    path = RESULTS / "versus.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    lines = known.setdefault(section, {})
    for one in outcomes:
        lines[one.cell] = {**one.as_json(), **one.details}
    known["machine"] = machine()
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
