"""Listening sockets that stay usable when descriptors run out.

asyncio accepts as many connections in a row as its backlog is long, and logs a traceback for each attempt when the process
has no descriptor left. Here a turn of the event loop accepts a few, a lack of descriptors pauses accepting for a second, and
the log has one line a minute about it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from stratalog.broker.runtime.event_loop import ready_sockets_of

__all__ = ["AcceptingServer", "Listening", "listen"]

ACCEPTS_PER_TURN: Final = 16
"""Connections taken from the kernel in one turn of the loop: each costs some 100 us until it is one of ours."""

PAUSE_SECONDS: Final = 1.0
"""How long accepting pauses for want of descriptors or memory."""

LINE_SECONDS: Final = 60.0
"""The least time between two lines about that."""

_REMEDIES: Final = {
    errno.EMFILE: "Raise the limit of open files of this process (ulimit -n)",
    errno.ENFILE: "Raise the limit of open files of the machine (sysctl fs.file-max)",
}
"""By error of `accept`. The others that pause accepting, ENOBUFS and ENOMEM first of all, are about memory."""

log = logging.getLogger(__name__)


class Listening(Protocol):
    """Bound sockets, as asyncio's servers show them."""

    @property
    def sockets(self) -> Sequence[Any]:
        """The sockets."""
        ...

    async def start_serving(self) -> None:
        """Listen, and accept connections. Raises `OSError`."""
        ...

    def close(self) -> None:
        """Close the sockets; connections that are there stay."""
        ...


async def listen(
    loop: asyncio.AbstractEventLoop,
    new_protocol: Callable[[], asyncio.BaseProtocol],
    host: str | None,
    port: int,
    *,
    backlog: int,
    tls: ssl.SSLContext | None = None,
    handshake_seconds: float | None = None,
) -> Listening:
    """Bind the addresses of ``host`` (None is every interface) without serving yet. Raises `OSError`.

    An event loop of another kind, such as a simulated one, accepts in its own way.
    """
    if ready_sockets_of(loop) is None:
        return await loop.create_server(
            new_protocol,
            host,
            port,
            backlog=backlog,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else handshake_seconds,
            start_serving=False,
        )
    bound = await loop.create_server(new_protocol, host, port, start_serving=False)
    try:
        sockets = [each.dup() for each in bound.sockets]
    finally:
        bound.close()
    return AcceptingServer(loop, sockets, new_protocol, backlog, tls, handshake_seconds)


class AcceptingServer:
    """Accepts connections from bound sockets, which it owns and closes."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: Sequence[socket.socket],
        new_protocol: Callable[[], asyncio.BaseProtocol],
        backlog: int,
        tls: ssl.SSLContext | None = None,
        handshake_seconds: float | None = None,
    ) -> None:
        self._loop = loop
        self.sockets = list(sockets)
        self._new_protocol = new_protocol
        self._backlog = backlog
        self._tls = tls
        self._handshake_seconds = None if tls is None else handshake_seconds
        self._arriving: set[asyncio.Task[None]] = set()
        self._paused: asyncio.TimerHandle | None = None
        self._told_at = float("-inf")
        self.pauses = 0
        """How often accepting has paused for want of descriptors or memory."""
        for one in self.sockets:
            one.setblocking(False)

    async def start_serving(self) -> None:
        """Listen, and accept connections. Raises `OSError`."""
        for one in self.sockets:
            one.listen(self._backlog)
        self._resume()

    def close(self) -> None:
        """Close the sockets; connections that are there stay."""
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None
        for one in self.sockets:
            self._loop.remove_reader(one.fileno())
            one.close()
        self.sockets = []

    def _resume(self) -> None:
        self._paused = None
        for one in self.sockets:
            self._loop.add_reader(one.fileno(), self._accept, one)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening, error)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._arrive(accepted))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    async def _arrive(self, accepted: socket.socket) -> None:
        """Make a connection of an accepted socket; one that fails its handshake, or has gone already, is closed."""
        try:
            await self._loop.connect_accepted_socket(
                self._new_protocol, accepted, ssl=self._tls, ssl_handshake_timeout=self._handshake_seconds
            )
        except (OSError, ssl.SSLError) as error:
            accepted.close()
            log.debug("a connection ended before it was one: %s", error)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Leave new connections in the kernel's queue for a while: descriptors may come back."""
        self.pauses += 1
        for one in self.sockets:
            self._loop.remove_reader(one.fileno())
        self._paused = self._loop.call_later(PAUSE_SECONDS, self._resume)
        now = self._loop.time()
        if now - self._told_at >= LINE_SECONDS:
            self._told_at = now
            log.error(
                "no connection can be accepted at port %d: %s; this is tried again every second (%d times so far). %s",
                listening.getsockname()[1],
                error,
                self.pauses,
                _REMEDIES.get(error.errno or 0, "See whether the machine is short of memory"),
            )
