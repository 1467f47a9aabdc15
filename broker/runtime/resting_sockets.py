"""Sockets that can wait a little: many are looked at together, instead of each waking the loop.

A thousand members of groups send a few hundred heartbeats a second, and a request that comes alone costs several times
what it costs among others: the processor has slept, and finds its caches cold. So a connection that has sent nothing but
heartbeats lately rests: its socket is moved to an epoll instance of its own, which lies in that of the loop. As network
drivers do with packets, the instance wakes the loop as long as that is seldom, and is looked at every
`REST_SECONDS` when it is not. A connection that sends anything else hears of it within that time, and rests no longer.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from math import inf
from typing import Final

__all__ = ["REST_SECONDS", "RestingSockets"]

REST_SECONDS: Final = 0.05
"""How long a resting socket waits at most, while others rest and are busy."""

_EVENTS_MAX: Final = 4_096


class RestingSockets:
    """The sockets that rest, and when they are looked at. Descriptors are registered with the loop's epoll, and stay so."""

    def __init__(self, epoll: select.epoll, monotonic: Callable[[], float]) -> None:
        """``epoll`` is the loop's, ``monotonic`` its clock in seconds."""
        self._outer = epoll
        self._monotonic = monotonic
        self._inner = select.epoll()
        self._outer.register(self._inner.fileno(), select.EPOLLIN)
        self._resting: set[int] = set()
        self._wakes = True
        self._seen_at = -inf
        self.due = inf
        """When to look next (seconds of the clock); infinite while the sockets wake the loop themselves."""

    def fileno(self) -> int:
        """The descriptor that wakes the loop's epoll when a resting socket may be read."""
        return self._inner.fileno()

    def __len__(self) -> int:
        return len(self._resting)

    def __contains__(self, descriptor: int) -> bool:
        return descriptor in self._resting

    def add(self, descriptor: int) -> None:
        """The socket rests from now on; of the loop's epoll only its end is still heard."""
        self._inner.register(descriptor, select.EPOLLIN)
        self._outer.modify(descriptor, 0)
        self._resting.add(descriptor)

    def remove(self, descriptor: int, events: int) -> None:
        """The socket rests no longer: the loop's epoll waits for ``events`` of it again."""
        self._resting.remove(descriptor)
        self._inner.unregister(descriptor)
        self._outer.modify(descriptor, events)

    def look(self) -> list[tuple[int, int]]:
        """The sockets that may be read, with their events; and from that, when to look next."""
        now = self._monotonic()
        events = self._inner.poll(0, _EVENTS_MAX)
        if not events:
            self._let_wake(wakes=True)
        elif not self._wakes or now - self._seen_at < REST_SECONDS:
            self._let_wake(wakes=False)
            self.due = now + REST_SECONDS
        if events:
            self._seen_at = now
        return events

    def close(self) -> None:
        """Give the epoll instance back."""
        self._inner.close()

    def _let_wake(self, *, wakes: bool) -> None:
        if wakes:
            self.due = inf
        if wakes != self._wakes:
            self._wakes = wakes
            self._outer.modify(self._inner.fileno(), select.EPOLLIN if wakes else 0)
