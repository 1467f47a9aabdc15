"""Figures that cost a pass over everything: counted at a scrape, in steps, at most once a second.

So all figures of one scrape come from the same pass, however many there are, and no pass holds the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, Generic, TypeVar

from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics

__all__ = ["LOOKS_A_STEP", "FreshFigures"]

T = TypeVar("T")

LOOKS_A_STEP: Final = 256
"""A count yields after it has looked at so many partitions, groups or transactions: about a millisecond."""
_FRESH_SECONDS: Final = 1.0
_NEVER: Any = object()


class FreshFigures(Generic[T]):
    """The result that ``count`` returned at the latest scrape; it yields where it may pause."""

    def __init__(self, metrics: Metrics, count: Callable[[], Generator[None, None, T]], clock: Clock) -> None:
        self._count = count
        self._clock = clock
        self._counted_at = -_FRESH_SECONDS
        self._figures: T = _NEVER
        metrics.before_collecting(self._refresh)

    def _refresh(self) -> Iterator[None]:
        """Count anew if the figures are older than a second."""
        began = self._clock.monotonic()
        if self._figures is _NEVER or began - self._counted_at >= _FRESH_SECONDS:
            self._figures = yield from self._count()
            self._counted_at = began

    def get(self) -> T:
        """The figures of the latest scrape. Raises `RuntimeError` if there was none."""
        if self._figures is _NEVER:
            raise RuntimeError("these figures are asked for before they were counted, outside of a scrape")
        return self._figures
