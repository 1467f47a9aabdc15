"""The timer of the quorum's machine: one call at the time that the machine named last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Deadline"]


class Deadline:
    """Calls ``call`` at the time that was set last. Lives on the event loop."""

    def __init__(self, monotonic: Callable[[], float], call: Callable[[], None]) -> None:
        self._monotonic = monotonic
        self._call = call
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms = -1

    def now_ms(self) -> int:
        """The present time."""
        return int(self._monotonic() * 1000)

    def set(self, at_ms: int | None) -> None:
        """Call at ``at_ms``, and at no other time; None for never."""
        if at_ms == self._at_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at_ms = None, -1
        if at_ms is not None:
            self._at_ms = at_ms
            seconds = max(0, at_ms - self.now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer, self._at_ms = None, -1
        self._call()
