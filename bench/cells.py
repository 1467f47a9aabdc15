"""Every cell of the table by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.outcome import Bound, Outcome, failed
from bench.produce_fetch import FETCH, PRODUCE, Comparison, compare
from bench.settings import Settings

__all__ = ["CELLS", "Cell", "every_outcome", "selected"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured together: the names, units and bounds of its lines, and how to get them."""

    lines: tuple[tuple[str, str, Bound], ...]
    measure: Callable[[Settings], list[Outcome]]


def _compared(comparison: Comparison) -> Cell:
    unit = "C's CPU per request / ours" if comparison.by_cpu else "throughput / C's, best of runs"

    def measure(settings: Settings) -> list[Outcome]:
        return [compare(comparison, settings)]

    return Cell(((comparison.cell, unit, comparison.bound),), measure)


CELLS: dict[str, Cell] = {comparison.cell: _compared(comparison) for comparison in (*PRODUCE, FETCH)}


def selected(wanted: str) -> list[str]:
    """The names that begin with one of the words between commas; all of them for none.

    Raises ``ValueError`` for a word that no name begins with.
    """
    words = [word.strip() for word in wanted.split(",") if word.strip()]
    for word in words:
        if not any(name.startswith(word) for name in CELLS):
            raise ValueError(f"no cell is called {word!r}; there are {', '.join(CELLS)}")
    return [name for name in CELLS if not words or any(name.startswith(word) for word in words)]


def every_outcome() -> list[Outcome]:
    """A line for each cell that says nothing was measured."""
    return [failed(*line, "not measured") for cell in CELLS.values() for line in cell.lines]
