"""Fair shares of a few simultaneous turns for clients: weighted fair queueing.

Each turn has a cost. A turn that waits is due when its client would have had it paid for, had every client that waits
been served at the same speed. The turn that is due first comes first: a short one before long ones of others, a client
that has asked for much behind those that have asked for little. No turn waits for ever: it is due at a fixed time, and
that time passes with everything that is served. Source: A. Demers, S. Keshav, S. Shenker, "Analysis and Simulation of
a Fair Queueing Algorithm" (1989).
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator, Hashable
from typing import Final, NamedTuple

__all__ = ["CommandTurns"]

_REMEMBERED_MAX: Final = 1000
"""Above so many clients, those that have no debt are forgotten."""


class _Waiting(NamedTuple):
    """A turn that waits, in the order of the queue. ``number`` keeps equal ones in the order in which they came."""

    due: float
    number: int
    cost: float
    begun: asyncio.Future[None]


class CommandTurns:
    """At most ``at_once`` turns are under way together."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._at_once = at_once
        self._waiting: list[_Waiting] = []
        self._numbers = itertools.count()
        self._now = 0.0
        """The work that each client that waits has been served so far."""
        self._due: dict[Hashable, float] = {}
        """When the last turn of a client is due. A client whose time has passed has no debt."""

    def __len__(self) -> int:
        """Turns that wait."""
        return sum(not one.begun.done() for one in self._waiting)

    @contextlib.asynccontextmanager
    async def turn(self, source: Hashable, cost: float) -> AsyncIterator[None]:
        """Wait for a turn of ``source``, which is under way within. Costs have any unit and are above 0."""
        due = max(self._now, self._due.get(source, 0.0)) + cost
        self._due[source] = due
        if self._free:
            self._free -= 1
            self._serve(cost)
        else:
            await self._wait(due, cost)
        try:
            yield
        finally:
            self._end()

    async def _wait(self, due: float, cost: float) -> None:
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, _Waiting(due, next(self._numbers), cost, begun))
        try:
            await begun
        except asyncio.CancelledError:
            if not begun.cancelled():  # the turn had begun already
                self._end()
            raise

    def _end(self) -> None:
        """A turn is over: the one that is due first begins."""
        while self._waiting:
            first = heapq.heappop(self._waiting)
            if not first.begun.done():
                self._serve(first.cost)
                first.begun.set_result(None)
                return
        self._free += 1
        if self._free == self._at_once:
            self._now = 0.0
            self._due.clear()

    def _serve(self, cost: float) -> None:
        """Time passes: the work is shared by all that wait, and the one that is served."""
        self._now += cost / (len(self._waiting) + 1)
        if len(self._due) > _REMEMBERED_MAX:
            self._due = {source: due for source, due in self._due.items() if due > self._now}
