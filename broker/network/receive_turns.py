"""Shares each round of the event loop among the connections that have requests.

A client may send requests without end and read no answer. Each of its turns is bounded, but the others wait for the sum of
all turns: with fifty such clients a bound for each of them would not help. So one round of the loop has a fixed time for
requests. Connections whose sockets are ready share it, and so do those that have more requests than they had time for.
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
    """Counts the sockets that the last look at all of them found ready."""

    ready_count: int


class ReceiveTurns:
    """The rounds of one event loop, and the connections with requests left over, in the order in which they came."""

    __slots__ = ("_counts", "_loop", "_scheduled", "_sharing", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, counts: CountsReady | None = None) -> None:
        """Without ``counts`` each connection has the whole time of a round."""
        self._loop = loop
        self._counts = counts
        self._scheduled = False
        self._sharing = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        """How many connections wait for their turn."""
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
