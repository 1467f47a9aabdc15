"""The table on the terminal and the two result files."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.outcome import Outcome

__all__ = ["RESULTS", "machine", "merged", "render", "render_primitives", "write"]

RESULTS = Path(__file__).resolve().parent / "results"

_CPUS = Path("/proc/cpuinfo")
_HEAD = ("cell", "measured", "target", "held", "predicted", "CPU us/req", "C's CPU us", "unit")


def merged(
    fresh: Sequence[Outcome], earlier: Iterable[dict[str, object]], every: Sequence[Outcome]
) -> list[dict[str, object]]:
    """A line for every cell: the fresh one, else the one of an earlier run, else one that says nothing was measured."""
    by_cell = {str(line["cell"]): line for line in (one.as_json() for one in every)}
    by_cell.update({str(line["cell"]): line for line in earlier if line["cell"] in by_cell})
    by_cell.update({one.cell: one.as_json() for one in fresh})
    return [by_cell[one.cell] for one in every]


def render(outcomes: Sequence[Outcome]) -> str:
    """The table, with the notes below it."""
    rows = [_HEAD, *(_row(outcome) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    notes = dict.fromkeys(outcome.note for outcome in outcomes if outcome.note)
    lines += [f"* {note}: {', '.join(one.cell for one in outcomes if one.note == note)}" for note in notes]
    return "\n".join(lines)


def render_primitives(figures: Mapping[str, float | str]) -> str:
    """The measured primitives in one paragraph."""
    return "primitives: " + ", ".join(f"{name} {_number(value)}" for name, value in figures.items())


def write(
    outcomes: Sequence[Outcome],
    every: Sequence[Outcome],
    primitives: Mapping[str, float | str],
    directory: Path = RESULTS,
) -> None:
    """``latest.json`` with one line for every cell, ``details.json`` with all figures of the cells of this run."""
    directory.mkdir(exist_ok=True)
    latest, details = directory / "latest.json", directory / "details.json"
    earlier = json.loads(latest.read_text()) if latest.exists() else []
    latest.write_text(_lines(merged(outcomes, earlier, every)))
    known = json.loads(details.read_text()) if details.exists() else {}
    known.update({one.cell: {**one.details, "predicted": one.predicted, "note": one.note} for one in outcomes})
    known["machine"] = machine()
    known["primitives"] = dict(primitives)
    details.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def machine() -> dict[str, str]:
    """When and on what kind of machine."""
    models = [line.split(":")[1].strip() for line in _CPUS.read_text().splitlines() if line.startswith("model name")]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processors": f"{len(models)} x {models[0] if models else platform.machine()}",
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _lines(rows: Sequence[dict[str, object]]) -> str:
    return "[\n" + ",\n".join(" " + json.dumps(row) for row in rows) + "\n]\n"


def _row(outcome: Outcome) -> tuple[str, ...]:
    return (
        outcome.cell,
        _number(outcome.measured),
        str(outcome.bound),
        "yes" if outcome.held else "NO",
        _number(outcome.predicted),
        _number(outcome.details.get("ours_cpu_us")),
        _number(outcome.details.get("limit_cpu_us")),
        outcome.unit,
    )


def _number(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:.3g}"
