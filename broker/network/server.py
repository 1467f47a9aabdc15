"""Listening sockets: accepting within limits, closing what is idle or too slow, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from stratalog.broker.network.accepting import Listening, listen
from stratalog.broker.network.buffers import BufferPool
from stratalog.broker.network.connection import AUTHENTICATION_SECONDS, Connection
from stratalog.broker.network.connection_counts import ConnectionCounts, ServerLimits
from stratalog.broker.network.connection_services import Client, Quota, Services
from stratalog.broker.network.listening import naming_setting
from stratalog.broker.network.page_cache import PageCache
from stratalog.broker.network.receiving import Dispatch
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.settings.listeners import Listener, SecurityProtocol
from stratalog.metadata.image.brokers_image import ListenerAddress

__all__ = ["Server", "told_listeners"]

log = logging.getLogger(__name__)

SWEEP_SECONDS_MAX: Final = 5.0
_SWEEP_SECONDS_MIN: Final = 0.05
_SWEEP_SECONDS_SHORT_OF_MEMORY: Final = 1.0
_MEMORY_WAIT_SECONDS_MAX: Final = 10.0
"""When a request has waited for memory for longer, the broker is not ready for more."""
_REFUSED_LOG_SECONDS: Final = 10.0
_ACCEPT_TURNS: Final = 4
"""Turns of the loop in which a connection that the kernel has given us becomes one that can be closed."""

_LIMITED_PER_TURN: Final = 250
"""Connections that get new quotas in one turn of the loop: each costs some 30 us."""

_HELD_LONGER_SECONDS: Final = 60.0
"""A connection that is held is not heard before it is closed, however late the timers come."""
_ENCRYPTED: Final = frozenset({SecurityProtocol.SSL, SecurityProtocol.SASL_SSL})


class Server:
    """The network edge of a broker: its listeners and all their connections.

    ``tick`` and ``page_cache`` are made by :meth:`start`'s loop and shared with the rest of the broker.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        dispatch: Dispatch,
        *,
        clock: Clock,
        metrics: Metrics,
        limits: ServerLimits | None = None,
        tls: Mapping[str, ssl.SSLContext] | None = None,
        tick: Tick | None = None,
        inter_broker_listener: str | None = None,
    ) -> None:
        """``tls`` has the context of every encrypted listener by its name. Must be made inside the running loop.

        Connections at ``inter_broker_listener`` are counted apart from those of the other listeners, if there are any:
        clients may not keep brokers from each other. Kafka's ``ConnectionQuotas`` calls such a listener protected.
        """
        self.limits = ServerLimits() if limits is None else limits
        """May be replaced: the numbers of connections hold for those that come then."""
        self._listeners = list(listeners)
        self._tls = dict(tls or {})
        for listener in self._listeners:
            if listener.protocol in _ENCRYPTED and listener.name not in self._tls:
                raise ValueError(f"listener {listener.name} is {listener.protocol} but has no TLS context")
        loop = asyncio.get_running_loop()
        budget = max(self.limits.request_memory_bytes, self.limits.connection.frame_bytes_max)
        self.tick = Tick(loop) if tick is None else tick
        self.page_cache = PageCache(loop)
        self.buffers = BufferPool(budget, self.limits.request_memory_per_ip_bytes)
        self._metrics = metrics
        self._services: Services[Connection] = Services(
            loop=loop,
            clock=clock,
            tick=self.tick,
            buffers=self.buffers,
            page_cache=self.page_cache,
            metrics=metrics.network,
            dispatch=dispatch,
            limits=self.limits.connection,
        )
        self._servers: list[Listening] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._counts = ConnectionCounts([listener.name for listener in self._listeners], inter_broker_listener)
        self._refusal_logged_at: float | None = None
        self._emptied: asyncio.Event | None = None
        self._closing = False
        self._connection_wait: Callable[[str], float] = lambda _: 0.0
        self.connections: dict[Connection, None] = {}
        self._held: set[Connection] = set()
        self._to_limit: list[Connection] = []
        self.addresses: dict[str, tuple[str, int]] = {}
        _add_gauges(self, metrics)

    async def start(self) -> None:
        """Bind and accept at once. Raises OSError."""
        await self.bind()
        await self.accept()

    async def bind(self) -> None:
        """Take the ports; ``addresses`` then has (host, port) by listener name. Clients are still refused.

        A broker registers its addresses and recovers its logs before it lets clients in. Raises OSError.
        """
        try:
            for listener in self._listeners:
                await self._bind(listener)
        except BaseException:
            await self.close(grace_seconds=0)
            raise

    async def accept(self) -> None:
        """Let clients in. Raises OSError if another process listens at a port by now: both had taken it before."""
        for listener, server in zip(self._listeners, self._servers, strict=True):
            with naming_setting(f"listeners ({listener.name})", *self.addresses[listener.name]):
                await server.start_serving()
        self._schedule_sweep()

    async def close(self, grace_seconds: float = 5.0) -> None:
        """Stop listening, let requests that are being handled be answered for a while, then close everything."""
        await self._stop_accepting()
        for connection in [*self.connections, *self._held]:
            if connection.idle:
                connection.abort()
        if self.connections:
            self._emptied = asyncio.Event()
            waiting = asyncio.ensure_future(self._emptied.wait())
            try:
                for delay in _grace_steps(grace_seconds):
                    await asyncio.wait({waiting}, timeout=delay)
                    for connection in list(self.connections):
                        if connection.idle:
                            connection.abort()
                for connection in list(self.connections):
                    connection.abort()
                await asyncio.wait({waiting}, timeout=1.0)
            finally:
                waiting.cancel()
        self._services.hang_ups.close()
        self.page_cache.close()
        self.buffers.trim()

    async def _stop_accepting(self) -> None:
        """Stop accepting connections; those on the way in come as far as being closed.

        asyncio forgets a socket that it has accepted when its server is closed before its transport is made (the
        assertion in ``Server._attach``). So first the server stops accepting, then the servers are closed.
        """
        self._closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        for server in self._servers:
            for listening in server.sockets:
                self._services.loop.remove_reader(listening)
        for _ in range(_ACCEPT_TURNS):
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()

    async def _bind(self, listener: Listener) -> None:
        loop = self._services.loop

        def connected() -> Connection:
            return Connection(self._services, listener, self._opened, self._closed)

        tls = self._tls[listener.name] if listener.protocol in _ENCRYPTED else None
        with naming_setting(f"listeners ({listener.name})", listener.host, listener.port):
            server = await listen(
                loop,
                connected,
                listener.host or None,
                listener.port,
                backlog=self.limits.backlog,
                tls=tls,
                handshake_seconds=AUTHENTICATION_SECONDS,
            )
        for accepting in server.sockets:
            # Accepted sockets inherit the sizes; they must be set before the handshake to widen the window.
            if self.limits.send_buffer_bytes is not None:
                accepting.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)
            if self.limits.receive_buffer_bytes is not None:
                accepting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.limits.receive_buffer_bytes)
        self._servers.append(server)
        host, port = server.sockets[0].getsockname()[:2]
        self.addresses[listener.name] = (host, port)

    # The connections' callbacks.

    def _opened(self, connection: Connection) -> bool:
        """Whether an accepted connection is within the limits."""
        if self._closing:
            return False
        network = self._metrics.network
        held_seconds = self._connection_wait(connection.host)
        if held_seconds:
            return self._hold(connection, held_seconds)
        reason = self._counts.refusal(connection, self.limits)
        if reason is not None:
            network.connections_refused += 1
            self._log_refusal(connection, reason)
            return False
        network.connections_accepted += 1
        self.connections[connection] = None
        self._counts.opened(connection)
        return True

    def use_quotas(self, quota_of: Callable[[Client], Quota | None], connection_wait: Callable[[str], float]) -> None:
        """From now on clients have these limits.

        ``connection_wait(address)`` counts a new connection; it returns the seconds for which the connection is held
        unheard before it is closed, 0 if it may stay.
        """
        self._services.quota_of = quota_of
        self._connection_wait = connection_wait

    def limit_anew(self) -> None:
        """Ask for the quota of every connection again: the first ones now, each further lot in a turn of its own."""
        is_under_way = bool(self._to_limit)
        self._to_limit = list(self.connections)
        if not is_under_way:
            self._limit_some()

    def _limit_some(self) -> None:
        some = self._to_limit[-_LIMITED_PER_TURN:]
        del self._to_limit[-_LIMITED_PER_TURN:]
        if self._to_limit:
            self._services.loop.call_soon(self._limit_some)
        for connection in some:
            if not connection.closed:
                connection.limit(self._services.quota_of(connection))

    def _hold(self, connection: Connection, seconds: float) -> bool:
        """Refuse a connection after a while in which it is not heard: a client refused at once comes back at once.

        False for one that is refused at once all the same: held ones use descriptors, as many as other connections may have.
        """
        self._metrics.network.connections_refused += 1
        self._log_refusal(connection, "connection_creation_rate is reached")
        if len(self._held) + len(self.connections) >= self.limits.connections_max:
            return False
        self._held.add(connection)
        connection.mute_until(connection.read_at + seconds + _HELD_LONGER_SECONDS)
        self._services.loop.call_later(seconds, connection.abort)
        return True

    def _log_refusal(self, connection: Connection, reason: str) -> None:
        """One line every few seconds: a flood of connections may not become a flood of lines."""
        now = connection.read_at
        if self._refusal_logged_at is None or now - self._refusal_logged_at >= _REFUSED_LOG_SECONDS:
            self._refusal_logged_at = now
            refused = self._metrics.network.connections_refused
            log.warning("refusing a connection from %s: %s (%d refused so far)", connection.peer, reason, refused)

    def _closed(self, connection: Connection) -> None:
        self._held.discard(connection)
        if connection not in self.connections:
            return
        del self.connections[connection]
        self._metrics.network.connections_closed += 1
        self._counts.closed(connection)
        if not self.connections and self._emptied is not None:
            self._emptied.set()

    def not_ready(self) -> list[str]:
        """Why more clients would not be served well, a sentence each."""
        since = self.buffers.waits_since()
        waited = 0.0 if since is None else self._services.clock.monotonic() - since
        if waited <= _MEMORY_WAIT_SECONDS_MAX:
            return []
        memory = self.buffers.memory
        used = f"{memory.used_bytes} bytes of queued.max.request.bytes={memory.limit_bytes} are in use"
        count = self.buffers.waiting_count
        return [f"{count} connections wait for memory to receive requests, the first for {waited:.0f} s: {used}"]

    # Looking after connections that do nothing.

    def _schedule_sweep(self) -> None:
        idle_ms = self.limits.idle_ms
        delay = SWEEP_SECONDS_MAX if idle_ms < 0 else max(_SWEEP_SECONDS_MIN, min(SWEEP_SECONDS_MAX, idle_ms / 4000))
        if self.buffers.memory.waits:
            delay = min(delay, _SWEEP_SECONDS_SHORT_OF_MEMORY)
        self._sweep = self._services.loop.call_later(delay, self._sweep_connections)

    def _sweep_connections(self) -> None:
        now = self._services.clock.monotonic()
        idle_seconds = self.limits.idle_ms / 1000 if self.limits.idle_ms >= 0 else math.inf
        for connection in list(self.connections):
            try:
                reason = connection.sweep(now, idle_seconds)
            except Exception:
                # A mistake about one connection may not keep the others from being swept, now and later.
                log.exception("the connection from %s is closed: it cannot be looked at", connection.peer)
                connection.abort()
                continue
            if reason is not None:
                self._metrics.network.connections_expired += 1
                log.info("closing the connection from %s: %s", connection.peer, reason)
                connection.abort()
        self.buffers.trim()
        self._schedule_sweep()


def _grace_steps(seconds: float) -> list[float]:
    """How long to wait between looks at connections that are finishing: often first, then every 100 ms."""
    steps: list[float] = []
    step = 0.005
    while seconds > 0:
        steps.append(min(step, seconds))
        seconds -= step
        step = min(step * 2, 0.1)
    return steps


def _add_gauges(server: Server, metrics: Metrics) -> None:
    metrics.add_gauge(
        "kafka_server_socket_server_metrics_connection_count",
        "Open client connections, by listener.",
        lambda: [({"listener": name}, count) for name, count in _by_listener(server).items()],
    )
    metrics.add_gauge(
        "stratalog_network_receive_buffer_bytes",
        "Memory that unfinished and queued requests hold; its limit is queued.max.request.bytes.",
        lambda: [({}, server.buffers.used_bytes)],
    )
    metrics.add_gauge(
        "stratalog_network_receive_buffer_waiting_connections",
        "Connections that are not read because their requests wait for that memory.",
        lambda: [({}, server.buffers.waiting_count)],
    )


def _by_listener(server: Server) -> Counter[str]:
    return Counter(connection.listener.name for connection in server.connections)


def told_listeners(
    advertised: Sequence[Listener], addresses: Mapping[str, tuple[str, int]]
) -> dict[str, ListenerAddress]:
    """The addresses that clients get for listeners bound to
    ``addresses``; a port of 0 becomes the one that was bound.
    """
    return {
        listener.name: ListenerAddress(listener.host, listener.port or addresses[listener.name][1])
        for listener in advertised
    }
