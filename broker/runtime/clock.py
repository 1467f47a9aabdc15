"""Ports for time. No other module of the broker reads a clock: tests and simulations put another one here."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

__all__ = ["Clock", "LoopClock", "SystemClock"]


class Clock(Protocol):
    """Wall-clock time for what records and files carry, monotonic time for what waits."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may jump when the machine's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    monotonic = staticmethod(time.monotonic)
    """Seconds; the builtin itself, because it is read once per received chunk and per answer."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000


class LoopClock:
    """Time as an event loop counts it, so that a loop with virtual time moves both clocks."""

    __slots__ = ("_loop", "_wall_origin_ms", "monotonic")

    def __init__(self, loop: asyncio.AbstractEventLoop, wall_origin_ms: int) -> None:
        """``wall_origin_ms`` is the wall-clock time at the loop's zero."""
        self._loop = loop
        self._wall_origin_ms = wall_origin_ms
        self.monotonic = loop.time

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return self._wall_origin_ms + int(self._loop.time() * 1000)
