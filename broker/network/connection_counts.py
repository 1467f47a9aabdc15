"""Which new connections are within the limits of all clients together.

Brokers among themselves are counted apart where their listener is one of several, as at the listener that Kafka's
``ConnectionQuotas`` calls protected: a flood of clients may not keep brokers from each other.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from msgspec import Struct, field

from stratalog.broker.network.connection_services import ConnectionLimits
from stratalog.broker.settings.listeners import Listener

__all__ = ["ConnectionCounts", "ServerLimits"]

_FEW_CONNECTIONS: Final = 8
"""An address with fewer gets one of those that are reserved: an administrator, not a flood."""

_BROKER_CONNECTIONS_LEAST: Final = 64
"""Brokers may have so many among themselves, however small max.connections is."""


class ServerLimits(Struct, frozen=True, kw_only=True):
    """The limits of all clients together; setting names are Kafka's.

    ``connections_max`` (``max.connections``), ``connections_reserved`` (of those, the ones that only addresses with few
    connections get), ``connections_per_ip_max`` (``max.connections.per.ip``, with ``per_ip_overrides``), ``connection_rate_max`` (``max.connection.creation.rate``, a second), ``idle_ms``
    (``connections.max.idle.ms``, below 0 for ever), ``request_memory_bytes`` (``queued.max.request.bytes``: receive buffers of all
    connections), ``request_memory_per_ip_bytes`` (``stratalog.request.memory.per.ip.bytes``: what unfinished large
    requests of one address hold of it; None is half), ``send_buffer_bytes`` and ``receive_buffer_bytes`` (``socket.send.buffer.bytes``,
    ``socket.receive.buffer.bytes``; None leaves them to the kernel, which adapts them), ``backlog``
    (``socket.listen.backlog.size``).
    """

    connections_max: int = 4096
    connections_per_ip_max: int = 4096
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    connection_rate_max: int | None = None
    idle_ms: int = 600_000
    request_memory_bytes: int = 1 << 30
    request_memory_per_ip_bytes: int | None = None
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    backlog: int = 1024
    connections_reserved: int = 0
    connection: ConnectionLimits = field(default_factory=ConnectionLimits)


class Applicant(Protocol):
    """A connection that has just been accepted, or is closed now."""

    @property
    def host(self) -> str:
        """The address of the client."""

    @property
    def listener(self) -> Listener:
        """The listener that it came through."""

    @property
    def read_at(self) -> float:
        """The time of its latest bytes, first that of its acceptance (monotonic seconds)."""


class ConnectionCounts:
    """Counts the open connections, and says which further ones are too many."""

    def __init__(self, listeners: Iterable[str], inter_broker_listener: str | None = None) -> None:
        """``listeners`` are the names of all; without others beside it that of the brokers is not apart."""
        self._apart = inter_broker_listener if set(listeners) - {inter_broker_listener} else None
        self._of_clients = self._of_brokers = 0
        self._per_host: Counter[tuple[str, bool]] = Counter()
        self._recent: deque[float] = deque()

    def opened(self, connection: Applicant) -> None:
        """One more is open."""
        self._count(connection, 1)

    def closed(self, connection: Applicant) -> None:
        """One that was open is so no more."""
        self._count(connection, -1)
        address = self._address(connection)
        if not self._per_host[address]:
            del self._per_host[address]

    def refusal(self, connection: Applicant, limits: ServerLimits) -> str | None:
        """Why a new connection is one too many; None if it may stay, and then its coming is counted."""
        per_host, (_, is_of_broker) = self._per_host[self._address(connection)], self._address(connection)
        reason = self._refusal_of_broker(limits) if is_of_broker else self._refusal_of_client(limits)
        reason = reason or self._refusal_of_last(limits, per_host, is_of_broker=is_of_broker)
        if reason is not None:
            return reason
        per_host_max = limits.per_ip_overrides.get(connection.host, limits.connections_per_ip_max)
        if per_host >= per_host_max:
            return f"max.connections.per.ip of {per_host_max} is reached"
        return None if is_of_broker else self._refusal_by_rate(connection.read_at, limits.connection_rate_max)

    def _address(self, connection: Applicant) -> tuple[str, bool]:
        """The host, and whether the connection is one of brokers among themselves."""
        return connection.host, connection.listener.name == self._apart

    def _count(self, connection: Applicant, change: int) -> None:
        address = self._address(connection)
        self._per_host[address] += change
        if address[1]:
            self._of_brokers += change
        else:
            self._of_clients += change

    def _refusal_of_broker(self, limits: ServerLimits) -> str | None:
        if self._left(limits, is_of_broker=True) <= 0:
            most = max(limits.connections_max, _BROKER_CONNECTIONS_LEAST)
            return f"brokers have {most} connections among themselves (listener {self._apart})"
        return None

    def _refusal_of_client(self, limits: ServerLimits) -> str | None:
        if self._left(limits, is_of_broker=False) <= 0:
            return f"max.connections of {limits.connections_max} is reached"
        return None

    def _refusal_of_last(self, limits: ServerLimits, per_host: int, *, is_of_broker: bool) -> str | None:
        """At the listener of brokers, too: clients may use it, and a broker that comes late has few."""
        left = self._left(limits, is_of_broker=is_of_broker)
        if left <= limits.connections_reserved and per_host >= _FEW_CONNECTIONS:
            return f"the last {limits.connections_reserved} connections are for addresses with fewer than {_FEW_CONNECTIONS}"
        return None

    def _left(self, limits: ServerLimits, *, is_of_broker: bool) -> int:
        if is_of_broker:
            return max(limits.connections_max, _BROKER_CONNECTIONS_LEAST) - self._of_brokers
        return limits.connections_max - self._of_clients - self._of_brokers

    def _refusal_by_rate(self, now: float, rate_max: int | None) -> str | None:
        if rate_max is None:
            return None
        recent = self._recent
        while recent and recent[0] <= now - 1.0:
            recent.popleft()
        if len(recent) >= rate_max:
            return f"max.connection.creation.rate of {rate_max} is reached"
        recent.append(now)
        return None
