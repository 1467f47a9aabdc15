"""How long to wait after failures: Kafka's ``ExponentialBackoff``, with chance handed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

__all__ = ["JITTER", "Backoff"]

JITTER: Final = 0.2
"""The part by which a time may be shorter or longer than its due."""

_DOUBLINGS_MAX: Final = 62


class Backoff(Struct, frozen=True):
    """Times that double with each failure in a row, from ``initial_ms`` to ``max_ms``."""

    initial_ms: int
    max_ms: int

    def after(self, failures: int, draw: Callable[[], float]) -> int:
        """The time in ms after ``failures`` earlier ones, never above ``max_ms``.

        ``draw`` gives a number from 0.0 up to but without 1.0, all equally likely.
        """
        due_ms = min(self.initial_ms << min(failures, _DOUBLINGS_MAX), self.max_ms)
        return min(int(due_ms * (1 - JITTER + 2 * JITTER * draw())), self.max_ms)
