"""Noticing that the other end has gone while a socket is not read.

A connection that is held back is taken out of the event loop, so the end of its stream stays unseen, and what it holds
stays held. Linux tells of the end without reading (EPOLLRDHUP), in an epoll instance of its own: asyncio knows nothing
of that one, and registers and unregisters the same sockets as it likes.
"""

from __future__ import annotations

import asyncio
import fcntl
import select
import struct
import termios
from collections.abc import Callable
from typing import Final

__all__ = ["HangUps", "unread_in_kernel"]

_EVENTS_MAX: Final = 256
_INT: Final = struct.Struct("i")


class HangUps:
    """The sockets of one event loop that are not read for now, by descriptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll: select.epoll | None = None
        self._gone: dict[int, Callable[[], None]] = {}

    def __len__(self) -> int:
        """Sockets that are watched."""
        return len(self._gone)

    def watch(self, descriptor: int, gone: Callable[[], None]) -> None:
        """Call ``gone`` once when the other end has closed its side; :meth:`forget` before the descriptor is closed."""
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._look)
        if descriptor not in self._gone:
            self._epoll.register(descriptor, select.EPOLLRDHUP)
        self._gone[descriptor] = gone

    def forget(self, descriptor: int) -> None:
        """The socket is read again, or is about to be closed."""
        if self._gone.pop(descriptor, None) is not None and self._epoll is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Watch nothing any more."""
        self._gone.clear()
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _look(self) -> None:
        assert self._epoll is not None
        for descriptor, _ in self._epoll.poll(0, _EVENTS_MAX):
            gone = self._gone.get(descriptor)
            if gone is not None:
                self.forget(descriptor)
                gone()


def unread_in_kernel(descriptor: int) -> int:
    """Bytes that a socket has received and the process has not read (FIONREAD). Raises OSError."""
    return int(_INT.unpack(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(_INT.size)))[0])
