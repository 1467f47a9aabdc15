"""Turns at sending large answers: a piece at a time, small answers first, reads from the archive last.

Everything is sent by one event loop, and to hand a mebibyte to a socket takes it as long as ten small requests. With a few
readers that want all they can get, each turn of the loop would consist of their mebibytes, and an acknowledgement, which
needs several turns, would wait for dozens of them. So large answers stand in a queue. While small answers are being sent,
a piece of it leaves in a turn of the loop that had nothing else to do, or after some that had; when no small answers
come, pieces are large and cost nothing.

Readers of the archive can wait, and there is no end to what they want: whatever each piece costs, a loop that they keep
busy all the time is late for every client, and so is what else needs its core (a sync of the log runs in a thread of the
kernel that is bound to it). So their pieces leave only while the loop has had idle time lately. If it had not, one leaves
in a millisecond; between those the loop may sleep.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

__all__ = ["CALM_SECONDS", "LARGE_BYTES", "PIECE_BYTES", "REST_SECONDS", "CountsIdle", "SendTurns", "TakesTurns"]

LARGE_BYTES: Final = 128 << 10
"""An answer with at least so much left to send is large."""

PIECE_BYTES: Final = 128 << 10
"""Bytes that leave in one turn while small answers are being sent."""

PIECE_BYTES_MAX: Final = 4 << 20
"""Bytes that leave in one turn while there are none, before other waiting senders get theirs."""

CALM_SECONDS: Final = 0.02
"""After so long without a small answer there is no sender to be considerate
of. Two of a moderate load are a millisecond apart.
"""

REST_SECONDS: Final = 0.001
"""The patient get a piece in this time however busy the loop is. The selector counts no smaller times."""

IDLE_SHARE: Final = 0.4
"""The share of the loop's time that patient senders leave idle as far as it depends on them."""

_CREDIT_SECONDS: Final = 0.002
"""So much idle time may be saved up, or owed: what was long ago says nothing about now."""

_PASSED_MAX: Final = 8
"""So many turns of the loop may belong to small answers alone before a piece leaves that is not one of the patient's."""


class TakesTurns(Protocol):
    """A sender that waits for its turn."""

    def take_turn(self, size_bytes: int) -> None:
        """Send at most so much now, and ask again if there is more."""
        ...


class CountsIdle(Protocol):
    """The counter of the loop's idle time."""

    idle_seconds: float


class SendTurns:
    """The queues of one event loop. ``small_count`` is counted by the senders: answers that were not large."""

    __slots__ = (
        "_calm_at",
        "_counts",
        "_credit_seconds",
        "_idle_seconds",
        "_looked_at",
        "_loop",
        "_passed",
        "_patient",
        "_patient_due_at",
        "_rest",
        "_scheduled",
        "_seen",
        "_waiting",
        "small_count",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, counts: CountsIdle | None = None) -> None:
        """``counts`` knows how idle the loop is; without it, patient senders never wait for that."""
        self.small_count = 0
        self._loop = loop
        self._counts = counts
        self._rest: asyncio.TimerHandle | None = None
        self._waiting: deque[TakesTurns] = deque()
        self._patient: deque[TakesTurns] = deque()
        self._scheduled = False
        self._seen = 0
        self._passed = 0
        self._calm_at = self._patient_due_at = self._looked_at = float("-inf")
        self._credit_seconds = self._idle_seconds = 0.0

    def __len__(self) -> int:
        """Senders that wait."""
        return len(self._waiting) + len(self._patient)

    def at_once(self) -> int:
        """The bytes that a sender with a large answer may send without waiting; 0 if it has to wait for its turn."""
        if self._waiting or self._patient or self._scheduled:
            return 0
        now = self._loop.time()
        self._look_for_small(now)
        return PIECE_BYTES_MAX if now >= self._calm_at else 0

    def wait(self, sender: TakesTurns, *, patient: bool = False) -> None:
        """The sender gets a turn, after those that wait already; ``patient`` ones send reads from the archive."""
        (self._patient if patient else self._waiting).append(sender)
        if self._rest is not None and not patient:
            self._rest.cancel()
            self._rest = None
            self._scheduled = False
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        self._rest = None
        try:
            self._give_turn()
        finally:  # one that cannot send keeps no other from sending
            if self._waiting or self._patient:
                self._schedule()

    def _give_turn(self) -> None:
        now = self._loop.time()
        small = self._look_for_small(now)
        if self._patient and now >= self._patient_due_at:
            self._give(self._patient, now)
        elif small and self._passed < _PASSED_MAX:
            self._passed += 1
        elif self._waiting:
            self._passed = 0
            self._give(self._waiting, now)
        elif now >= self._calm_at or self._idle_enough(now):
            self._passed = 0
            self._give(self._patient, now)
        else:
            self._scheduled = True
            self._rest = self._loop.call_later(self._patient_due_at - now, self._run)

    def _give(self, queue: deque[TakesTurns], now: float) -> None:
        """The first of the queue sends."""
        if queue is self._patient:
            self._patient_due_at = now + REST_SECONDS
        queue.popleft().take_turn(PIECE_BYTES_MAX if now >= self._calm_at else PIECE_BYTES)

    def _look_for_small(self, now: float) -> bool:
        """Whether small answers were sent since the last look."""
        if self.small_count == self._seen:
            return False
        self._seen = self.small_count
        self._calm_at = now + CALM_SECONDS
        return True

    def _idle_enough(self, now: float) -> bool:
        """Whether the loop has been idle for its share of the time lately."""
        if self._counts is None:
            return True
        idle_seconds = self._counts.idle_seconds
        credit = self._credit_seconds + idle_seconds - self._idle_seconds - (now - self._looked_at) * IDLE_SHARE
        self._credit_seconds = min(max(credit, -_CREDIT_SECONDS), _CREDIT_SECONDS)
        self._idle_seconds, self._looked_at = idle_seconds, now
        return credit >= 0
