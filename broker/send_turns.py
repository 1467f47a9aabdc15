"""Whose turn it is to send a large answer: a piece at a time, and small answers first.

Everything is sent by one event loop, and to hand a mebibyte to a socket takes it as long as ten small requests. With a few
readers that want all they can get, each turn of the loop would consist of their mebibytes, and an acknowledgement, which
needs several turns, would wait for dozens of them. So large answers stand in a queue. While small answers are being sent,
a piece of it leaves in a turn of the loop that had nothing else to do, or after some that had; when no small answers
come, pieces are large and cost nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

__all__ = ["LARGE_BYTES", "PIECE_BYTES", "SendTurns", "TakesTurns"]

LARGE_BYTES: Final = 128 << 10
"""An answer with at least so much left to send is large."""

PIECE_BYTES: Final = 128 << 10
"""What leaves in one turn while small answers are being sent."""

PIECE_BYTES_MAX: Final = 4 << 20
"""What leaves in one turn while there are none, before others who wait get theirs."""

_PASSED_MAX: Final = 8
"""So many turns of the loop in a row may belong to small answers alone."""

_CALM_TURNS: Final = 16
"""After so many large pieces without a small answer in between there is nobody to be considerate of."""


class TakesTurns(Protocol):
    """Who sends."""

    def take_turn(self, size_bytes: int) -> None:
        """Send at most so much now, and ask again if there is more."""
        ...


class SendTurns:
    """The queue of one event loop. ``small_count`` is counted by the senders: answers that were not large."""

    __slots__ = ("_calm", "_loop", "_passed", "_scheduled", "_seen", "_waiting", "small_count")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.small_count = 0
        self._loop = loop
        self._waiting: deque[TakesTurns] = deque()
        self._scheduled = False
        self._seen = 0
        self._passed = 0
        self._calm = _CALM_TURNS

    def __len__(self) -> int:
        """Senders that wait."""
        return len(self._waiting)

    def at_once(self) -> int:
        """What a sender with a large answer may send without waiting; 0 if it has to wait for its turn."""
        if self._waiting or self._scheduled:
            return 0
        self._count_calm()
        return PIECE_BYTES_MAX if self._calm >= _CALM_TURNS else 0

    def wait(self, sender: TakesTurns) -> None:
        """The sender gets a turn, after those that wait already."""
        self._waiting.append(sender)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        if self._count_calm() and self._passed < _PASSED_MAX:
            self._passed += 1
        else:
            self._passed = 0
            sender = self._waiting.popleft()
            sender.take_turn(PIECE_BYTES_MAX if self._calm >= _CALM_TURNS else PIECE_BYTES)
        if self._waiting:
            self._schedule()

    def _count_calm(self) -> bool:
        """Whether small answers were sent since the last look."""
        if self.small_count != self._seen:
            self._seen = self.small_count
            self._calm = 0
            return True
        self._calm += 1
        return False
