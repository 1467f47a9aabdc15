"""The table of a campaign: a row for each fault or pair, a column for each workload."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.faults.campaign import Cell, Run

__all__ = ["append_run", "read_runs", "table"]


def append_run(path: Path, run: Run) -> None:
    """One line of JSON more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(asdict(run)) + "\n")


def read_runs(path: Path) -> list[Run]:
    """All runs of a file."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Run(**{**row, "cells": {name: Cell(**cell) for name, cell in row["cells"].items()}}) for row in rows]


def table(runs: Sequence[Run]) -> str:
    """Markdown. A cell has acknowledged records, the longest time without an acknowledgement, and violations."""
    workloads = list(dict.fromkeys(name for run in runs for name in run.cells))
    lines = [
        "| fault | runs | times | " + " | ".join(workloads) + " | replicas, archive, nodes |",
        "|---|---:|---:|" + "---|" * (len(workloads) + 1),
    ]
    for fault in dict.fromkeys(run.faults for run in runs):
        mine = [run for run in runs if run.faults == fault]
        times = sum(count for run in mine for name, count in run.counts.items() if name in fault.split("+"))
        cells = [_cell([run.cells[name] for run in mine if name in run.cells]) for name in workloads]
        bad = sum(len(run.violations) for run in mine)
        lines.append(f"| {fault} | {len(mine)} | {times} | " + " | ".join(cells) + f" | {bad} |")
    return "\n".join(lines)


def _cell(cells: Sequence[Cell]) -> str:
    if not cells:
        return ""
    count = sum(cell.acknowledged for cell in cells)
    gap = max(cell.longest_gap_seconds for cell in cells)
    return f"{count:,}, {gap:.1f} s, {sum(len(cell.violations) for cell in cells)}"
