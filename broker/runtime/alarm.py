"""A timer of the loop for a machine that says when it wants to be woken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

__all__ = ["Alarm"]


class Alarm:
    """Calls ``wake`` at the time that was set last, or a little later."""

    def __init__(self, monotonic: Callable[[], float], wake: Callable[[], None]) -> None:
        self._monotonic = monotonic
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = inf

    def now_ms(self) -> int:
        """The present time."""
        return int(self._monotonic() * 1000)

    def set(self, due_ms: float) -> None:
        """Be called at ``due_ms`` at the latest; infinite for never. A timer that is early stays: it costs one look."""
        if due_ms >= self._due_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms = due_ms
        delay = max(0.0, (due_ms + 1) / 1000 - self._monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._ring)

    def cancel(self) -> None:
        """Do not call any more."""
        timer, self._timer, self._due_ms = self._timer, None, inf
        if timer is not None:
            timer.cancel()

    def _ring(self) -> None:
        self._timer, self._due_ms = None, inf
        self._wake()
