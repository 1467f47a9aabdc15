"""What connections get from their server: limits of their own, and what all of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stratalog.broker.buffers import BufferPool
from stratalog.broker.clock import Clock
from stratalog.broker.event_loop import ready_sockets_of
from stratalog.broker.hang_ups import HangUps
from stratalog.broker.metrics import NetworkMetrics
from stratalog.broker.page_cache import PageCache
from stratalog.broker.receive_turns import ReceiveTurns
from stratalog.broker.receiving import Dispatch
from stratalog.broker.send_turns import SendTurns
from stratalog.broker.tick import Tick
from stratalog.wire.schema import TAGS_MAX

if TYPE_CHECKING:
    from stratalog.broker.connection import Connection
    from stratalog.broker.quotas import ClientQuotas

__all__ = ["ConnectionLimits", "Services"]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may use.

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


@dataclass(slots=True)
class Services:
    """What all connections of a server share."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    tick: Tick
    buffers: BufferPool
    page_cache: PageCache
    metrics: NetworkMetrics
    dispatch: Dispatch
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    quota_of: Callable[[Connection], ClientQuotas | None] = lambda _: None
    """What limits the client of a connection; asked whenever it calls itself otherwise than before."""
    turns: SendTurns = field(init=False)
    receive_turns: ReceiveTurns = field(init=False)
    hang_ups: HangUps = field(init=False)

    def __post_init__(self) -> None:
        """Large answers of all connections stand in one queue."""
        sockets = ready_sockets_of(self.loop)
        self.turns = SendTurns(self.loop, sockets)
        self.receive_turns = ReceiveTurns(self.loop, sockets)
        self.hang_ups = HangUps(self.loop)
