"""A cell: one or more lines of the table that are measured together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.outcome import Bound, Outcome, failed
from bench.settings import Settings

__all__ = ["Cell", "Line"]


@dataclass(frozen=True, slots=True)
class Line:
    """Name, unit and bound of one line."""

    cell: str
    unit: str
    bound: Bound

    def outcome(self, measured: float | None, **details: float | str) -> Outcome:
        """The line with its figure."""
        return Outcome(self.cell, self.unit, measured, self.bound, details=details)

    def not_measured(self, reason: str) -> Outcome:
        """The line without a figure."""
        return failed(self.cell, self.unit, self.bound, reason)


@dataclass(frozen=True, slots=True)
class Cell:
    """Lines that one measurement fills."""

    name: str
    lines: tuple[Line, ...]
    measure: Callable[[Settings], list[Outcome]]
