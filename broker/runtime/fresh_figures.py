"""Figures that cost a pass over everything: counted on demand, at most once a second.

So all figures of one scrape come from the same pass, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from stratalog.broker.runtime.clock import Clock

__all__ = ["FreshFigures"]

T = TypeVar("T")

_FRESH_SECONDS: Final = 1.0


class FreshFigures(Generic[T]):
    """The result that ``count`` returned less than a second ago."""

    def __init__(self, count: Callable[[], T], clock: Clock) -> None:
        self._count = count
        self._clock = clock
        self._counted_at = -_FRESH_SECONDS
        self._figures: T | None = None

    def get(self) -> T:
        """The figures, counted anew if they are older."""
        now = self._clock.monotonic()
        if self._figures is None or now - self._counted_at >= _FRESH_SECONDS:
            self._counted_at = now
            self._figures = self._count()
        return self._figures
