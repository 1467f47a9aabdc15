"""Limits the connections of the HTTP port: how many there may be, and how long each may take.

Any stranger may connect and send nothing. So connections are counted in all and by address, a header has to be complete
within seconds, and a connection without a request is closed after a while. When there are too many, the one that has been
without a request for longest is closed for the new one, so that health checks get through.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Protocol

from msgspec import Struct

from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import BrokerConfig

__all__ = ["HttpConnections", "HttpLimits", "HttpProtocol", "http_limits"]

HEADER_SECONDS: Final = 5.0
"""From the first byte of a request to the end of its header."""

BODY_SECONDS: Final = 30.0
"""From the end of the header to the end of the body."""

IDLE_SECONDS: Final = 30.0
"""How long a connection may stay without a request, and how long a client may leave an answer untaken."""

_READ_BYTES: Final = 8192
"""So much is read of a connection in a turn of the loop. Each byte of a body may come in a chunk of its own, and a request takes few
bytes: a quarter of a megabyte of them, which asyncio reads otherwise, held the loop for 0.3 s."""

_SWEEP_SECONDS: Final = 1.0
"""The time between two looks at all connections."""


class HttpLimits(Struct, frozen=True, kw_only=True):
    """Connections in all and from one address (``stratalog.http.connections.max`` and ``….per.ip.max``)."""

    connections_max: int = 64
    per_host_max: int = 16


def http_limits(config: BrokerConfig) -> HttpLimits:
    """The limits of the HTTP port as the settings give them."""
    return HttpLimits(
        connections_max=config.integer("stratalog.http.connections.max"),
        per_host_max=config.integer("stratalog.http.connections.per.ip.max"),
    )


class HttpProtocol(Protocol):
    """The part of aiohttp's protocol that is called here; the methods are those of `asyncio.Protocol`."""

    def connection_made(self, transport: asyncio.BaseTransport, /) -> None:
        """The connection is there."""
        ...

    def connection_lost(self, exc: BaseException | None, /) -> None:
        """It has ended."""
        ...

    def data_received(self, data: bytes, /) -> None:
        """Bytes came."""
        ...

    def eof_received(self) -> bool | None:
        """No more will come."""
        ...

    def pause_writing(self) -> None:
        """Many bytes are unsent."""
        ...

    def resume_writing(self) -> None:
        """Few bytes are unsent."""
        ...


class HttpConnection(asyncio.BufferedProtocol):
    """One connection: passes everything on to ``served``, aiohttp's protocol, and notes when it happened.

    All times are those of the event loop, in seconds. ``read_at`` is when bytes came last, or the last request ended.
    ``request_since`` is when the header of the present request was complete; None between requests.
    """

    transport: asyncio.Transport

    def __init__(self, all_of_them: HttpConnections, served: HttpProtocol) -> None:
        self._all = all_of_them
        self._served = served
        self.host = ""
        self._admitted = False
        self.read_at = 0.0
        self._drops = False
        self._header_since: float | None = None
        self.request_since: float | None = None
        self._body_complete: Callable[[], bool] = lambda: True
        self._unsent_bytes = 0
        self._unsent_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the connection in, or close it at once."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.host = str((transport.get_extra_info("peername") or ("?",))[0])
        self.read_at = self._all.now()
        self._admitted = self._all.admit(self, self._served)
        if self._admitted:
            self._served.connection_made(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection has ended."""
        if self._admitted:
            self._all.left(self, self._served)
            self._served.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Where bytes are read to; all connections share it."""
        del sizehint
        return self._all.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes of a header or of a body."""
        self.read_at = self._all.now()
        if self.request_since is None and self._header_since is None:
            self._header_since = self.read_at
        if not self._drops:
            self._served.data_received(bytes(self._all.buffer[:nbytes]))

    def drop_rest(self) -> None:
        """Hand nothing more on: the connection ends with the answer to the present request, and its body is not read."""
        self._drops = True

    def eof_received(self) -> bool | None:
        """The client sends nothing more."""
        return self._served.eof_received()

    def pause_writing(self) -> None:
        """The client takes answers more slowly than they come."""
        self._served.pause_writing()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._served.resume_writing()

    def request_began(self, body_complete: Callable[[], bool]) -> None:
        """The header of a request is complete; ``body_complete`` says whether its body is."""
        self._header_since = None
        self.request_since = self._all.now()
        self._body_complete = body_complete

    def request_ended(self) -> None:
        """The answer has been made."""
        self.request_since = None
        self._body_complete = lambda: True
        self.read_at = self._all.now()

    def overdue(self, now: float) -> bool:
        """Whether the client has used up its time for a header, a body, an answer, or without a request."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent_bytes:
            self._unsent_bytes, self._unsent_since = unsent, now
        if unsent and now - self._unsent_since > IDLE_SECONDS:
            return True
        if self._header_since is not None:
            return now - self._header_since > HEADER_SECONDS
        if self.request_since is not None:
            return now - self.request_since > BODY_SECONDS and not self._body_complete()
        return not unsent and now - self.read_at > IDLE_SECONDS


class HttpConnections:
    """The connections of one port.

    ``refused`` counts those that were closed at once, ``expired`` those that were closed for their time or to make room.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: HttpLimits) -> None:
        self._loop = loop
        self._connections_max = limits.connections_max
        self._per_host_max = limits.per_host_max
        self.now = loop.time
        self.buffer = bytearray(_READ_BYTES)
        self._served: dict[Any, HttpConnection] = {}
        self._per_host: Counter[str] = Counter()
        self._sweep: asyncio.TimerHandle | None = None
        self.refused = self.expired = 0

    def add_figures(self, metrics: Metrics) -> None:
        """Add the counts to ``metrics``."""
        metrics.add_gauge("stratalog_http_connections", "Open connections of the HTTP port.", lambda: [({}, len(self))])
        metrics.add_counter(
            "stratalog_http_connections_refused",
            "Connections of the HTTP port that were closed at once because there were too many.",
            lambda: [({}, self.refused)],
        )
        metrics.add_counter(
            "stratalog_http_connections_expired",
            "Connections of the HTTP port that were closed because they were slow or idle, or made room for others.",
            lambda: [({}, self.expired)],
        )

    def __len__(self) -> int:
        """How many connections are open."""
        return len(self._served)

    def of(self, served: object) -> HttpConnection | None:
        """The connection that belongs to aiohttp's protocol; None if it has ended."""
        return self._served.get(served)

    def guarded(self, served: HttpProtocol) -> HttpConnection:
        """The protocol of a new connection, in front of aiohttp's."""
        return HttpConnection(self, served)

    def admit(self, connection: HttpConnection, served: HttpProtocol) -> bool:
        """Whether a new connection is let in; where it is one too many, one without a request is closed for it.

        That one has the same address, or in the end the address with the most connections.
        """
        if self._per_host[connection.host] >= self._per_host_max and not self._make_room(connection.host):
            self.refused += 1
            return False
        if len(self._served) >= self._connections_max:
            ((most, _),) = self._per_host.most_common(1)
            if not self._make_room(most):
                self.refused += 1
                return False
        self._served[served] = connection
        self._per_host[connection.host] += 1
        if self._sweep is None:
            self._sweep = self._loop.call_later(_SWEEP_SECONDS, self._look)
        return True

    def left(self, connection: HttpConnection, served: HttpProtocol) -> None:
        """Forget a connection, which has ended or is about to; a second call does nothing."""
        if self._served.pop(served, None) is not None:
            self._per_host[connection.host] -= 1
            if not self._per_host[connection.host]:
                del self._per_host[connection.host]

    def close(self) -> None:
        """Stop the looks at all connections; they stay open."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _make_room(self, host: str) -> bool:
        idle = [
            (one.read_at, served)
            for served, one in self._served.items()
            if one.host == host and one.request_since is None
        ]
        if not idle:
            return False
        _, served = min(idle, key=lambda each: each[0])
        self._expire(served)
        return True

    def _expire(self, served: HttpProtocol) -> None:
        self.expired += 1
        connection = self._served[served]
        self.left(connection, served)
        connection.transport.abort()

    def _look(self) -> None:
        now = self.now()
        try:
            for served, connection in list(self._served.items()):
                if connection.overdue(now):
                    self._expire(served)
        finally:  # a mistake about one connection may not end the looks at all
            self._sweep = self._loop.call_later(_SWEEP_SECONDS, self._look) if self._served else None
