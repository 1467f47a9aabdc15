"""Handed to connections by their server: limits of their own, and the services that all of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from stratalog.broker.network.buffers import BufferPool
from stratalog.broker.network.hang_ups import HangUps
from stratalog.broker.network.page_cache import PageCache
from stratalog.broker.network.receive_turns import ReceiveTurns
from stratalog.broker.network.send_turns import SendTurns
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.event_loop import ready_sockets_of
from stratalog.broker.runtime.metrics import NetworkMetrics
from stratalog.broker.runtime.tick import Tick
from stratalog.metadata.image.decision import Permit
from stratalog.wire.schema import TAGS_MAX, Message

__all__ = ["Client", "ConnectionLimits", "Quota", "Services"]

ConnectionT = TypeVar("ConnectionT")
AnswerT = TypeVar("AnswerT")


class ConnectionLimits(Struct, frozen=True):
    """The limits of one connection.

    ``frame_bytes_max``: ``socket.request.max.bytes``; ``unauthenticated_frame_bytes_max``: the same before
    authentication (CVE-2022-34917). ``elements_max`` and ``tags_max``: list elements of one request, unknown tagged
    fields of one structure. ``parked_max``: requests whose answers wait. ``queued_bytes_max``: bytes of answers that
    the client has not taken, above which no further request is handled.
    """

    frame_bytes_max: int = 104_857_600
    unauthenticated_frame_bytes_max: int = 64 << 10
    elements_max: int = 10_000
    tags_max: int = TAGS_MAX
    parked_max: int = 128
    queued_bytes_max: int = 4 << 20


class Client(Protocol):
    """A connection as quotas see it: who its client is, and until when it is not heard."""

    @property
    def principal(self) -> str:
        """``User:`` and a name."""

    @property
    def client_id(self) -> str | None:
        """The client id of the latest request."""

    @property
    def muted_until(self) -> float:
        """No request is handled before this time (monotonic seconds)."""

    def mute_until(self, deadline: float, /) -> None:
        """Handle no request before ``deadline`` (monotonic seconds)."""


class Quota(Protocol):
    """The limits of one client, whatever its connections; each use is counted, and mutes the connection if it is too much."""

    @property
    def fetch(self) -> object | None:
        """The limit on bytes that are fetched; None if there is none."""

    def fetch_bytes_max(self) -> float:
        """More than this would be too much even for a client that has not fetched for long."""

    def may_fetch(self, connection: Client, size_bytes: int, /) -> bool:
        """Count an answer with records; False, and nothing is counted, while what left before is still too much."""

    def handle(self, connection: Client, api_key: int, size_bytes: int, handler: Callable[[], AnswerT], /) -> AnswerT:
        """Have a request handled; count it and the time it took."""

    def spend(self, connection: Client, seconds: float, /) -> None:
        """Count time that a request of the connection took in slices."""

    def mark(self, connection: Client, response: Message, /) -> None:
        """Tell the client for how long it will not be heard."""

    def permit(self, connection: Client, /, *, strict: bool) -> Permit:
        """The permit that changes of the cluster ask; with ``strict`` it refuses."""


@dataclass(slots=True)
class Services(Generic[ConnectionT]):
    """Shared by all connections of a server."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    tick: Tick
    buffers: BufferPool
    page_cache: PageCache
    metrics: NetworkMetrics
    dispatch: Callable[[ConnectionT, memoryview], None]
    """Handles one request; the bytes are valid until it returns, unless they are leased."""
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    quota_of: Callable[[Client], Quota | None] = lambda _: None
    """Gives the limits of a connection's client; asked whenever it calls itself otherwise than before."""
    turns: SendTurns = field(init=False)
    receive_turns: ReceiveTurns = field(init=False)
    hang_ups: HangUps = field(init=False)

    def __post_init__(self) -> None:
        """Large answers of all connections stand in one queue."""
        sockets = ready_sockets_of(self.loop)
        self.turns = SendTurns(self.loop, sockets)
        self.receive_turns = ReceiveTurns(self.loop, sockets)
        self.hang_ups = HangUps(self.loop)
