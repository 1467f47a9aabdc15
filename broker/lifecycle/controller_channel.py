"""The way to the active controller: requests go to the leader of the metadata quorum, as this node knows it.

A request waits until a leader is known, no longer than its own time. When another node leads, the link to the former
one is closed, and what was in flight fails: it may have been carried out. Each purpose has a channel of its own: a
heartbeat does not wait behind a forwarded request that takes long. A controller asks itself over its own listener.
Source: Kafka's ``NodeToControllerChannelManager``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct

from stratalog.broker.peers.peer_errors import Peer, PeerClosed, PeerUnavailable
from stratalog.broker.peers.peer_link import PeerLink
from stratalog.broker.peers.peer_requests import ApiRanges
from stratalog.broker.quorum.leadership import LeaderAndEpoch, LeaderListener
from stratalog.wire.errors import StratalogError
from stratalog.wire.parts import parts_length
from stratalog.wire.schema import Message, encode

__all__ = [
    "BACKOFF_MS",
    "Channel",
    "ChannelClosed",
    "ChannelLimits",
    "ControllerChannel",
    "ControllerUnknown",
    "Quorum",
]

BACKOFF_MS: Final = 50
"""How long a leader that answered NOT_CONTROLLER is left alone, unless another one becomes known."""

_NO_PEER: Final = Peer(-1, "", 0)
_UNKNOWN: Final = -1


class Quorum(Protocol):
    """The part of `QuorumView` that this room uses."""

    @property
    def leader(self) -> LeaderAndEpoch:
        """The leader, as this node knows it now."""

    @property
    def high_watermark(self) -> int:
        """The records below this offset are committed."""

    def on_leader_change(self, listener: LeaderListener, /) -> None:
        """Call ``listener`` whenever the leader or its epoch has changed."""


class Channel(Protocol):
    """The part of `ControllerChannel` that is used here: a simulation puts another one in its place."""

    def ask(self, request: Message, *, timeout_ms: int, version: int | None = None) -> asyncio.Future[Any]:
        """Send a request to the active controller, and return its answer to come."""

    def not_controller(self, leader_epoch: int) -> None:
        """The leader of this epoch has answered NOT_CONTROLLER."""


class ControllerUnknown(PeerUnavailable):
    """No active controller was known in time, or too much waits for one already: the request was not sent."""

    def __init__(self, text: str) -> None:
        StratalogError.__init__(self, text)
        self.peer = _NO_PEER


class ChannelClosed(PeerClosed):
    """The channel was closed by this node: the request was not sent."""

    def __init__(self, text: str) -> None:
        StratalogError.__init__(self, text)
        self.peer = _NO_PEER


class ChannelLimits(Struct, frozen=True, kw_only=True):
    """The bounds of what waits while no active controller is known."""

    requests_max: int = 128
    request_bytes_max: int = 32 << 20


class _Waiting:
    """A request that waits for a controller."""

    __slots__ = ("deadline", "future", "request", "size_bytes", "timeout_ms", "timer", "version")

    def __init__(self, request: Message, timeout_ms: int, version: int | None, future: asyncio.Future[Any]) -> None:
        self.request = request
        self.timeout_ms = timeout_ms
        self.version = version
        self.future = future
        self.size_bytes = 0
        self.deadline = 0.0
        self.timer: asyncio.TimerHandle | None = None


class ControllerChannel:
    """Requests to the active controller, for one purpose. Used on one event loop only."""

    def __init__(
        self,
        quorum: Quorum,
        *,
        listener: str,
        new_link: Callable[[Peer], PeerLink],
        monotonic: Callable[[], float],
        limits: ChannelLimits | None = None,
    ) -> None:
        """``listener`` is the name under which controllers are reached, the first of ``controller.listener.names``.

        The channel hears of a new leader before those that are built with it do.
        """
        self._quorum = quorum
        self._listener = listener
        self._new_link = new_link
        self._monotonic = monotonic
        self._limits = ChannelLimits() if limits is None else limits
        self._link: PeerLink | None = None
        self._waiting: dict[asyncio.Future[Any], _Waiting] = {}
        self._waiting_bytes = 0
        self._refused_epoch = _UNKNOWN
        self._refused_timer: asyncio.TimerHandle | None = None
        self._closed = False
        quorum.on_leader_change(self._leader_changed)

    def __repr__(self) -> str:
        where = "no controller known" if self.controller is None else str(self.controller)
        return f"<ControllerChannel to {where}: {len(self._waiting)} requests wait>"

    @property
    def controller(self) -> Peer | None:
        """The active controller, its id, host and port; None while it is not known or says that it is none."""
        leader = self._quorum.leader
        if leader.leader_id < 0 or leader.epoch == self._refused_epoch:
            return None
        for endpoint in leader.endpoints:
            if endpoint.listener == self._listener:
                return Peer(leader.leader_id, endpoint.host, endpoint.port)
        return None

    @property
    def versions(self) -> ApiRanges | None:
        """The versions that the active controller serves, by API key; None while it has not told them."""
        link = self._link
        return None if link is None or link.peer != self.controller else link.versions

    @property
    def requests(self) -> int:
        """Requests that wait or are in flight."""
        return len(self._waiting) + (0 if self._link is None else self._link.requests)

    def ask(self, request: Message, *, timeout_ms: int, version: int | None = None) -> asyncio.Future[Any]:
        """Send a request to the active controller, and return its answer to come.

        Without ``version`` it goes in the highest that both sides speak. The future fails with `ControllerUnknown`,
        `ChannelClosed`, or as `PeerLink.ask` says; with `PeerUnavailable` and `PeerTimeout` the request may have been
        carried out. It does not stay open longer than ``timeout_ms`` and a little. An answer with NOT_CONTROLLER is the
        caller's: see `not_controller`. Raises `EncodeError` and `Invalid` for a request that cannot be sent.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(request, timeout_ms, version, future)
        name = type(request).__name__.removesuffix("Request")
        if self._closed:
            future.set_exception(ChannelClosed(f"{name}: this node has closed its way to the active controller"))
            return future
        controller = self.controller
        if controller is not None and not self._waiting:
            self._send(waiting, controller, timeout_ms)
            return future
        waiting.size_bytes = parts_length(encode(request, request.versions[1] if version is None else version))
        limits = self._limits
        if (
            len(self._waiting) >= limits.requests_max
            or self._waiting_bytes + waiting.size_bytes > limits.request_bytes_max
        ):
            held = f"{len(self._waiting)} requests of {self._waiting_bytes} bytes wait for an active controller already"
            future.set_exception(ControllerUnknown(f"{name}: {held}; one of {waiting.size_bytes} bytes has no room"))
            return future
        self._wait(waiting)
        return future

    def not_controller(self, leader_epoch: int) -> None:
        """The leader of this epoch has answered NOT_CONTROLLER: requests wait for another one, or for `BACKOFF_MS`.

        An epoch that is not the present one says nothing about the present leader.
        """
        if self._closed or leader_epoch != self._quorum.leader.epoch or self._refused_timer is not None:
            return
        self._refused_epoch = leader_epoch
        self._refused_timer = asyncio.get_running_loop().call_later(BACKOFF_MS / 1000, self._look_again)

    def close(self) -> None:
        """Fail what waits and what is in flight. A second call does nothing."""
        self._closed = True
        self._forget_refusal()
        for waiting in list(self._waiting.values()):
            self._leave(waiting)
            if not waiting.future.done():
                waiting.future.set_exception(ChannelClosed("this node has closed its way to the active controller"))
        if self._link is not None:
            self._link.close()

    async def wait_closed(self) -> None:
        """Wait until an attempt to connect that :meth:`close` has ended is gone."""
        if self._link is not None:
            await self._link.wait_closed()

    # -- waiting ------------------------------------------------------------------------------------------

    def _wait(self, waiting: _Waiting) -> None:
        loop = asyncio.get_running_loop()
        waiting.deadline = self._monotonic() + waiting.timeout_ms / 1000
        waiting.timer = loop.call_later(waiting.timeout_ms / 1000, self._expire, waiting)
        self._waiting[waiting.future] = waiting
        self._waiting_bytes += waiting.size_bytes
        waiting.future.add_done_callback(self._withdrawn)

    def _withdrawn(self, future: asyncio.Future[Any]) -> None:
        """The caller has cancelled a request, or it has ended."""
        waiting = self._waiting.get(future)
        if waiting is not None:
            self._leave(waiting)

    def _leave(self, waiting: _Waiting) -> None:
        if waiting.timer is not None:
            waiting.timer.cancel()
        if self._waiting.pop(waiting.future, None) is not None:
            self._waiting_bytes -= waiting.size_bytes

    def _expire(self, waiting: _Waiting) -> None:
        self._leave(waiting)
        if not waiting.future.done():
            name = type(waiting.request).__name__.removesuffix("Request")
            leader = self._quorum.leader
            who = "no leader is known" if leader.leader_id < 0 else f"node {leader.leader_id} leads"
            why = (
                f"{name}: no active controller was found within {waiting.timeout_ms} ms ({who} in epoch {leader.epoch} "
                f"of the metadata quorum, listener {self._listener}): see whether a majority of the controllers runs"
            )
            waiting.future.set_exception(ControllerUnknown(why))

    def _leader_changed(self, leader: LeaderAndEpoch, is_active: bool) -> None:
        if self._closed:
            return
        if is_active or leader.epoch != self._refused_epoch:
            self._forget_refusal()
        link, controller = self._link, self.controller
        if link is not None and controller is not None and link.peer != controller:
            self._link = None
            link.close()
        self._send_waiting()

    def _look_again(self) -> None:
        self._forget_refusal()
        self._send_waiting()

    def _forget_refusal(self) -> None:
        self._refused_epoch = _UNKNOWN
        timer, self._refused_timer = self._refused_timer, None
        if timer is not None:
            timer.cancel()

    def _send_waiting(self) -> None:
        controller = self.controller
        if controller is None:
            return
        now = self._monotonic()
        for waiting in list(self._waiting.values()):
            self._leave(waiting)
            if not waiting.future.done():
                self._send(waiting, controller, max(1, int((waiting.deadline - now) * 1000)))

    # -- sending ------------------------------------------------------------------------------------------

    def _send(self, waiting: _Waiting, controller: Peer, timeout_ms: int) -> None:
        link = self._link
        if link is None or link.peer != controller:
            if link is not None:
                link.close()
            link = self._link = self._new_link(controller)
        sent = link.ask(waiting.request, timeout_ms=timeout_ms, version=waiting.version)
        sent.add_done_callback(partial(self._ended, waiting.future, link))
        waiting.future.add_done_callback(partial(_cancel_with, sent))

    def _ended(self, future: asyncio.Future[Any], link: PeerLink, sent: asyncio.Future[Any]) -> None:
        if sent.cancelled():
            future.cancel()
            return
        error = sent.exception()
        if future.done():
            return
        if error is None:
            future.set_result(sent.result())
        elif isinstance(error, PeerClosed) and not self._closed:
            why = "it is no longer the active controller; the request may have been carried out there"
            future.set_exception(PeerUnavailable(link.peer, why))
        else:
            future.set_exception(error)


def _cancel_with(sent: asyncio.Future[Any], future: asyncio.Future[Any]) -> None:
    if future.cancelled():
        sent.cancel()
