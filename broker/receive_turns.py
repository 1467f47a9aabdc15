"""How long one connection may have the event loop to itself while others want it as well.

A client may send requests without end and read no answer. Each of its turns is bounded, but with fifty such clients the
bound of one is nothing: what others wait for is the sum. So one round of the loop has a fixed time for requests. Those
whose sockets are ready share it, and so do those that have more requests than they had time for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

__all__ = ["ROUND_SECONDS", "CountsReady", "ReceiveTurns"]

ROUND_SECONDS: Final = 0.01
"""The time for requests in one round of the loop, and for requests that were left over from earlier rounds."""


class CountsReady(Protocol):
    """How many sockets were found ready at once."""

    ready_count: int


class ReceiveTurns:
    """The rounds of one event loop, and the connections with requests left over, in the order in which they came."""

    __slots__ = ("_counts", "_loop", "_scheduled", "_sharing", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, counts: CountsReady | None = None) -> None:
        """Without ``counts`` each connection has a round of its own."""
        self._loop = loop
        self._counts = counts
        self._scheduled = False
        self._sharing = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        """Connections that wait for their turn."""
        return len(self._waiting)

    def end(self, now: float) -> float:
        """When a turn that begins ``now`` ends; both in monotonic seconds."""
        sharing = self._sharing
        if not sharing and self._counts is not None:
            sharing = self._counts.ready_count
        return now + ROUND_SECONDS / sharing if sharing > 1 else now + ROUND_SECONDS

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on``, which raises nothing, in one of the next rounds."""
        self._waiting.append(go_on)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        waiting = self._waiting
        end = self._loop.time() + ROUND_SECONDS
        self._sharing = len(waiting)
        try:
            for _ in range(self._sharing):
                waiting.popleft()()
                if self._loop.time() >= end:
                    break
        finally:
            self._sharing = 0
            self._scheduled = bool(waiting)
            if waiting:
                self._loop.call_soon(self._run)
