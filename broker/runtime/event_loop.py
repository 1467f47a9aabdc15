"""The event loop of a broker: asyncio's own, which tells a connection itself that its socket may be read.

asyncio makes a key of every socket that is ready, a handle of the key, and calls the handle in a context; that calls
the transport, and that the protocol: as much Python as a small request needs for itself. A socket known to
:class:`ReadySockets` is called by the selector instead, and work left for the end of the turn
(`stratalog.broker.runtime.tick`) is done in this turn, not in the next. All else stays asyncio's: who registers, pauses
and
closes sockets, and every event that is not the usual one.
"""

from __future__ import annotations

import asyncio
import math
import os
import select
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.runtime.resting_sockets import RestingSockets

__all__ = ["BrokerLoop", "ReadySockets", "add_reader", "ready_sockets_of", "remove_reader", "run"]

T = TypeVar("T")

EVENTS_MAX: Final = 256
"""Sockets looked at in one turn; those beyond them are still ready in the next."""

ROUND_SECONDS_MAX: Final = 0.02
_TIMED_FROM: Final = 16
"""With more sockets than this, those not reached within the time come first in the next turn."""

Ready = Callable[[], bool]
"""Called when asyncio's reader of a socket would be; False leaves the event to that one. Raises nothing."""


class ReadySockets(selectors.EpollSelector):
    """asyncio's selector, which calls the owners that are known to it itself."""

    def __init__(self) -> None:
        super().__init__()
        # Shares the epoll instance: takes what `select` of the base class makes lists of, without the lists.
        self._epoll = select.epoll.fromfd(os.dup(self.fileno()))
        self._known: dict[int, Ready] = {}
        self._afterwards: list[Callable[[], object]] = []
        self._telling = False
        self._resting = RestingSockets(self._epoll, SystemClock.monotonic)
        self._known[self._resting.fileno()] = self._look_at_resting
        self._may_rest = False
        self.idle_seconds = 0.0
        """Seconds without a ready socket, since the beginning."""
        self._next: dict[int, int] = {}
        """The sockets whose turn comes first, if the latest turn did not reach all: ranks by descriptor."""
        self.ready_count = 0
        """Sockets that the latest look found ready."""

    def tell(self, descriptor: int, ready: Ready) -> None:
        """From now on call ``ready`` when ``descriptor`` may be read, in turns that begin with asyncio reading it."""
        self._known[descriptor] = ready

    def forget(self, descriptor: int) -> None:
        """The descriptor is about to be closed."""
        self._known.pop(descriptor, None)
        self._wake(descriptor)

    def rest(self, descriptor: int) -> None:
        """The owner of ``descriptor``, which is being called, accepts to hear of the next bytes a little later.

        To be said each time; see :mod:`stratalog.broker.runtime.resting_sockets`. The registration stays while asyncio
        writes to the socket.
        """
        self._may_rest = True
        if descriptor not in self._resting:
            key = self.get_map().get(descriptor)
            if key is not None and key.events == selectors.EVENT_READ:
                self._resting.add(descriptor)

    def look(self, descriptor: int) -> None:
        """Look at ``descriptor`` now, if its owner rests. An owner that has sent
        nothing, or does not ask for more rest, is woken.
        """
        if descriptor in self._resting:
            self._may_rest = False
            ready = self._known.get(descriptor)
            if ready is None or not ready() or not self._may_rest:
                self._wake(descriptor)

    def call_afterwards(self, callable_: Callable[[], object]) -> bool:
        """Call ``callable_``, which raises nothing, when all who are ready have been told.

        False, and nothing done, if no owner is being called now.
        """
        if self._telling:
            self._afterwards.append(callable_)
        return self._telling

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait, call the known owners, and return what is left for asyncio."""
        if timeout is None:
            seconds = -1.0
        elif timeout <= 0:
            seconds = 0.0
        else:
            seconds = math.ceil(timeout * 1e3) * 1e-3  # epoll counts milliseconds: rather late than early
        left: list[tuple[selectors.SelectorKey, int]] = []
        resting = self._resting
        if seconds:
            began = SystemClock.monotonic()
            if resting.due != math.inf:
                wait = math.ceil(max(resting.due - began, 0.0) * 1e3) * 1e-3
                seconds = min(seconds, wait) if seconds > 0 else wait
            events = self._epoll.poll(seconds, EVENTS_MAX)
            self.idle_seconds += SystemClock.monotonic() - began
        else:
            events = self._epoll.poll(seconds, EVENTS_MAX)
        self.ready_count = len(events)
        self._telling = True
        try:
            self._tell(events, left)
            if resting.due != math.inf and SystemClock.monotonic() >= resting.due:
                self._look_at_resting()
            for callable_ in self._afterwards:
                callable_()
        finally:
            self._telling = False
            self._afterwards.clear()
        return left

    def _tell(self, events: list[tuple[int, int]], left: list[tuple[selectors.SelectorKey, int]]) -> None:
        """Call the known owners for ``events``, as far as the time of a turn goes; the others are ``left`` to asyncio."""
        known = self._known
        count = len(events)
        if self._next:
            # epoll names the same sockets first each time.
            turn, self._next = self._next, {}
            events.sort(key=lambda event: turn.get(event[0], count))
        timed = count > _TIMED_FROM
        late = SystemClock.monotonic() + ROUND_SECONDS_MAX if timed else math.inf
        for number, (descriptor, event) in enumerate(events, 1):
            ready = known.get(descriptor)
            if ready is None or not ready():
                self._leave(left, descriptor, event)
            if timed and SystemClock.monotonic() > late:
                self._next = {each: rank for rank, (each, _) in enumerate(events[number:])}
                return

    def _look_at_resting(self) -> bool:
        """Tell of those who rest and have sent something."""
        for descriptor, _ in self._resting.look():
            self.look(descriptor)
        return True

    def _wake(self, descriptor: int) -> None:
        if descriptor in self._resting:
            self._resting.remove(descriptor, select.EPOLLIN)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """As in the base class; an owner with more interests than before does not rest."""
        if self._resting:
            self._wake(self.get_key(fileobj).fd)
        return super().modify(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """As in the base class; ends the rest of the socket, too."""
        if self._resting:
            self._wake(self.get_key(fileobj).fd)
        return super().unregister(fileobj)

    def _leave(self, left: list[tuple[selectors.SelectorKey, int]], descriptor: int, event: int) -> None:
        """Leave an event to asyncio, unless who was interested in it has gone in this turn."""
        key = self.get_map().get(descriptor)
        if key is not None:
            mask = selectors.EVENT_WRITE if event & ~select.EPOLLIN else 0
            mask |= selectors.EVENT_READ if event & ~select.EPOLLOUT else 0
            left.append((key, mask & key.events))

    def close(self) -> None:
        """Close the selector."""
        self._resting.close()
        self._epoll.close()
        super().close()


class BrokerLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on :class:`ReadySockets`."""

    def __init__(self) -> None:
        self.ready_sockets = ReadySockets()
        super().__init__(self.ready_sockets)


def ready_sockets_of(loop: asyncio.AbstractEventLoop) -> ReadySockets | None:
    """The sockets that call connections on ``loop``; None on a loop of another kind, where asyncio does."""
    return loop.ready_sockets if isinstance(loop, BrokerLoop) else None


def add_reader(loop: asyncio.AbstractEventLoop, descriptor: int, callback: Callable[[], object]) -> None:
    """As ``loop.add_reader``, called by :class:`ReadySockets` where the loop has it."""
    loop.add_reader(descriptor, callback)
    sockets = ready_sockets_of(loop)
    if sockets is None:
        return

    def ready() -> bool:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - reported as the loop reports any callback
            loop.call_exception_handler({"message": f"{callback!r} failed", "exception": error})
        return True

    sockets.tell(descriptor, ready)


def remove_reader(loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    """Undo :func:`add_reader`, before the descriptor is closed."""
    loop.remove_reader(descriptor)
    sockets = ready_sockets_of(loop)
    if sockets is not None:
        sockets.forget(descriptor)


def run(main: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, on a loop of this kind."""
    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        return runner.run(main)
