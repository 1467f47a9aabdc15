"""The arithmetic of a cell: rotation of the kinds, medians and ratios, and whether a floor or ceiling is held."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

__all__ = ["Bound", "Outcome", "failed", "interleaved", "median", "rotated"]

Kind = TypeVar("Kind")
median = statistics.median


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of a measured figure: at least (a floor) or at most (a ceiling) ``value``."""

    sense: Literal[">=", "<="]
    value: float

    def held_by(self, measured: float | None) -> bool:
        """Whether ``measured`` keeps it; a figure that was not measured does not."""
        if measured is None:
            return False
        return measured >= self.value if self.sense == ">=" else measured <= self.value

    def __str__(self) -> str:
        return f"{self.sense} {self.value:g}"


@dataclass(slots=True)
class Outcome:
    """One line of the table. ``details`` are further figures by name, ``note`` says what the reader must know."""

    cell: str
    unit: str
    measured: float | None
    bound: Bound
    predicted: float | None = None
    details: dict[str, float | str] = field(default_factory=dict)
    note: str = ""

    @property
    def held(self) -> bool:
        """Whether the floor or ceiling is kept."""
        return self.bound.held_by(self.measured)

    def as_json(self) -> dict[str, object]:
        """The line as it stands in ``latest.json``."""
        measured = None if self.measured is None else float(f"{self.measured:.4g}")
        return {
            "cell": self.cell,
            "unit": self.unit,
            "measured": measured,
            "target": str(self.bound),
            "held": self.held,
        }


def failed(cell: str, unit: str, bound: Bound, reason: str) -> Outcome:
    """A cell that could not be measured."""
    return Outcome(cell, unit, None, bound, note=reason)


def rotated(kinds: Sequence[Kind], repetition: int) -> list[Kind]:
    """The kinds in another order each time: who follows whom decides how warm memory and caches are."""
    turn = repetition % len(kinds)
    return [*kinds[turn:], *kinds[:turn]]


def interleaved(kinds: Sequence[str], repetitions: int, run: Callable[[str, int], Kind]) -> dict[str, list[Kind]]:
    """Every kind once a repetition, in rotated order; the results of each in order of time."""
    results: dict[str, list[Kind]] = {kind: [] for kind in kinds}
    for kind, repetition in _turns(kinds, repetitions):
        results[kind].append(run(kind, repetition))
    return results


def _turns(kinds: Sequence[str], repetitions: int) -> Iterator[tuple[str, int]]:
    for repetition in range(repetitions):
        for kind in rotated(kinds, repetition):
            yield kind, repetition
