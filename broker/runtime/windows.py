"""Averages, maxima and rates of the last minute at most: one or two windows of 30 seconds.

These are Kafka's ``Avg``, ``Max`` and ``Rate`` with the defaults of ``metrics.sample.window.ms`` and
``metrics.num.samples``. No call asks for the time: each brings it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Struct

__all__ = ["WINDOW_MS", "Windows"]

WINDOW_MS: Final = 30_000


class _Window(Struct):
    begun_ms: int
    count: int = 0
    total: float = 0.0
    largest: float = 0.0


class Windows:
    """The values of the present window and of the one before."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: deque[_Window] = deque(maxlen=2)

    def note(self, value: float, now_ms: int) -> None:
        """One value more."""
        if not self._windows or now_ms - self._windows[-1].begun_ms >= WINDOW_MS:
            self._windows.append(_Window(now_ms))
        window = self._windows[-1]
        window.count += 1
        window.total += value
        window.largest = max(window.largest, value)

    def average(self, now_ms: int) -> float | None:
        """The mean; None without values."""
        recent = self._recent(now_ms)
        count = sum(one.count for one in recent)
        return sum(one.total for one in recent) / count if count else None

    def maximum(self, now_ms: int) -> float | None:
        """The largest; None without values."""
        return max((one.largest for one in self._recent(now_ms)), default=None)

    def per_second(self, now_ms: int) -> float:
        """The sum of the values by time: a value a second is 1. It is 0 without values."""
        recent = self._recent(now_ms)
        if not recent:
            return 0.0
        elapsed_ms = now_ms - recent[0].begun_ms
        if elapsed_ms < WINDOW_MS:  # a first value is no rate of thousands, as in Kafka's Rate
            elapsed_ms += WINDOW_MS
        return sum(one.total for one in recent) / (elapsed_ms / 1000)

    def _recent(self, now_ms: int) -> list[_Window]:
        return [one for one in self._windows if now_ms - one.begun_ms < 2 * WINDOW_MS]
