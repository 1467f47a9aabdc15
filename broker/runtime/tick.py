"""Work that is done once per turn of the event loop, for everything that arrived in it.

Requests of one turn are handled first; what they leave behind (one ``writev`` per log, one ``send`` per
connection) runs right after, together. This is what makes small requests cheap: group commit without a timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from stratalog.broker.runtime.event_loop import ready_sockets_of

__all__ = ["Tick"]

_ROUNDS_MAX = 16

log = logging.getLogger(__name__)


class Tick:
    """Callables to run at the end of the loop's present turn, in the order in which they were deferred."""

    __slots__ = ("_callables", "_loop", "_running", "_sockets")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sockets = ready_sockets_of(loop)
        self._callables: list[Callable[[], object]] = []
        self._running = False

    def defer(self, callable_: Callable[[], object]) -> None:
        """Run ``callable_`` once, after the events that the loop has already collected.

        Callables that are deferred while the tick runs run in the same tick, so an append may answer and the answers of
        one connection still leave in one write.
        """
        if not self._callables and not self._running:
            sockets = self._sockets
            if sockets is None or not sockets.call_afterwards(self._run):
                self._loop.call_soon(self._run)
        self._callables.append(callable_)

    def _run(self) -> None:
        self._running = True
        try:
            for _ in range(_ROUNDS_MAX):
                batch, self._callables = self._callables, []
                if not batch:
                    return
                for callable_ in batch:
                    try:
                        callable_()
                    except Exception:
                        # One neighbour's mistake may not take the writes and answers of all others with it.
                        log.exception("the deferred call %r failed; the other calls of this turn go on", callable_)
        finally:
            self._running = False
            if self._callables:
                self._loop.call_soon(self._run)
