"""Hands requests on to the active controller, and its answers back: clients' in envelopes, this node's own as they are.

Clients are read on meanwhile, and their answers stay in order. Requests that wait are bounded, in number and in bytes, for
each address and altogether; a few are on the way at a time, the others wait in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

from msgspec import Struct

from stratalog.broker.forwarding.envelopes import answer_in, envelope_of, request_frame, throttle_ms_of
from stratalog.broker.forwarding.outcomes import (
    BACKOFF_MS,
    RETRY_MS,
    Ending,
    Next,
    after_answer,
    after_envelope,
    after_error,
)
from stratalog.broker.peers.peer_errors import PeerError
from stratalog.broker.peers.peer_requests import ApiRanges
from stratalog.broker.requests.context import RequestContext
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.envelope import EnvelopeResponse
from stratalog.wire.schema import Message

__all__ = ["ControllerChannel", "Forwarder", "ForwardingLimits"]

ENVELOPE_BYTES_MAX: Final = 1024 + (64 << 10)
"""Header, principal and address around a request: a principal's name is text of at most 64 KiB."""

ResponseT = TypeVar("ResponseT", bound=Message)


class ControllerChannel(Protocol):
    """The way to the active controller."""

    def ask(self, request: Message, *, timeout_ms: int, version: int | None = None) -> asyncio.Future[Any]:
        """Send a request to the controller that is known to be active, or will be; fails with `PeerError`."""

    def not_controller(self, leader_epoch: int) -> None:
        """The leader of this epoch has answered NOT_CONTROLLER."""


class ForwardingLimits(Struct, frozen=True, kw_only=True):
    """The bounds of requests that wait for an answer of the active controller."""

    requests_max: int = 4096
    request_bytes_max: int = 64 << 20
    """An address may have half of both."""
    frame_bytes_max: int = 32 << 20
    """One request. The link to the controller, and the controller's ``socket.request.max.bytes``, must take it."""
    on_the_way_max: int = 64
    """Requests at the channel at a time: below the bound of its link."""


class Forwarder:
    """The `Forwarding` of a broker. Used on one event loop only."""

    def __init__(
        self,
        channel: ControllerChannel,
        *,
        is_active: Callable[[], bool],
        leader_epoch: Callable[[], int],
        monotonic: Callable[[], float],
        versions: Callable[[], ApiRanges | None] = lambda: None,
        limits: ForwardingLimits | None = None,
    ) -> None:
        """``is_active``: whether the active controller is in this process. ``leader_epoch`` is the one known here.

        ``versions`` are those of the controller at the channel, if they are known.
        """
        self._channel = channel
        self._is_active = is_active
        self._leader_epoch = leader_epoch
        self._monotonic = monotonic
        self._versions = versions
        self._limits = ForwardingLimits() if limits is None else limits
        self._on_the_way = asyncio.Semaphore(self._limits.on_the_way_max)
        self._waiting = _Waiting(self._limits)

    @property
    def elsewhere(self) -> bool:
        """Whether the active controller is in another process, or not known."""
        return not self._is_active()

    @property
    def versions(self) -> ApiRanges | None:
        """The versions that the active controller serves; None where it is this process, or not known."""
        return None if self._is_active() else self._versions()

    @property
    def waiting(self) -> int:
        """Requests of clients that wait for their answers."""
        return self._waiting.requests

    def forward(self, context: RequestContext[Any], frame: memoryview) -> bool:
        """Have the active controller answer the request in ``frame``; False if the handler of this process is to.

        The metadata quorum is asked over the listener of its leader, wherever that is.
        """
        if self._is_active() and not context.row.api.by_quorum:
            context.again = partial(self._begin, context, bytes(frame))
            return False
        self._begin(context, bytes(frame))
        return True

    async def ask(
        self, request: Message, response: type[ResponseT], context: RequestContext[Any] | None = None
    ) -> ResponseT:
        """The active controller's answer; see `Forwarding.ask`."""
        if context is None:
            return cast("ResponseT", await self._tried(request, after_answer))
        version = context.row.version if type(request) is context.row.api.request else request.versions[1]
        frame = request_frame(request, version, context.correlation_id, context.client_id)
        host = context.connection.host
        self._waiting.enter(host, len(frame))
        try:
            answer = answer_in(response, version, await self._enveloped(context, frame))
        except _Reconnect as error:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
        finally:
            self._waiting.leave(host, len(frame))
        self._throttle(context, getattr(answer, "throttle_time_ms", 0))
        return answer

    def _begin(self, context: RequestContext[Any], frame: bytes) -> None:
        host = context.connection.host
        try:
            self._waiting.enter(host, len(frame))
        except KafkaError as error:
            context.fail(error)
            return
        task = context.dispatcher.spawn(self._enveloped(context, frame))
        context.on_abandon = task.cancel
        task.add_done_callback(lambda _: self._waiting.leave(host, len(frame)))
        task.add_done_callback(partial(self._ended, context))

    def _ended(self, context: RequestContext[Any], task: asyncio.Task[bytes]) -> None:
        if task.cancelled():
            return  # the client has gone, or this node stops
        error = task.exception()
        if isinstance(error, _Reconnect):
            context.connection.refuse(str(error))
        elif error is not None:
            context.fail(error)
        else:
            self._relay(context, task.result())

    def _relay(self, context: RequestContext[Any], answer: bytes) -> None:
        try:
            throttle_ms = throttle_ms_of(context.row, answer)
        except KafkaError as error:
            context.fail(error)
            return
        context.relay(answer)
        self._throttle(context, throttle_ms)

    def _throttle(self, context: RequestContext[Any], throttle_ms: int) -> None:
        if throttle_ms > 0:
            context.connection.mute_until(self._monotonic() + throttle_ms / 1000)

    async def _enveloped(self, context: RequestContext[Any], frame: bytes) -> bytes:
        """The answer to a client's request, header and body."""
        connection = context.connection
        envelope = envelope_of(frame, connection.principal, connection.host)
        answer: EnvelopeResponse = await self._tried(envelope, after_envelope)
        assert answer.response_data is not None
        return answer.response_data

    async def _tried(self, request: Message, judge: Callable[[Any], Next]) -> Any:
        """The answer to a request, tried until its time is over. Raises `KafkaError` and `_Reconnect`."""
        deadline = self._monotonic() + RETRY_MS / 1000
        while True:
            epoch = self._leader_epoch()
            answer, verdict = await self._attempt(request, judge, deadline)
            if verdict.ending is Ending.DONE:
                return answer
            if verdict.ending is Ending.RECONNECT:
                raise _Reconnect("the active controller cannot read its request, in a version that this broker serves")
            if verdict.error is not None:
                raise verdict.error
            if verdict.ending is Ending.ELSEWHERE:
                self._channel.not_controller(epoch)
                if self._left_ms(deadline) <= BACKOFF_MS:
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "No controller was active in time.")
            if self._leader_epoch() == epoch:  # else another one has come to be known meanwhile
                await asyncio.sleep(BACKOFF_MS / 1000)

    async def _attempt(self, request: Message, judge: Callable[[Any], Next], deadline: float) -> tuple[Any, Next]:
        async with self._on_the_way:
            try:
                answer = await self._channel.ask(request, timeout_ms=max(1, self._left_ms(deadline)))
            except PeerError as error:
                return None, after_error(error, self._left_ms(deadline))
            return answer, judge(answer)

    def _left_ms(self, deadline: float) -> int:
        return int((deadline - self._monotonic()) * 1000)


class _Waiting:
    """The requests of clients that wait for an answer, within their bounds."""

    __slots__ = ("_bytes", "_limits", "_requests", "requests", "size_bytes")

    def __init__(self, limits: ForwardingLimits) -> None:
        self._limits = limits
        self.requests = self.size_bytes = 0
        self._requests: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def enter(self, host: str, size_bytes: int) -> None:
        """Take one more of a client at ``host``. Raises `KafkaError` for one beyond the bounds."""
        limits = self._limits
        if size_bytes + ENVELOPE_BYTES_MAX > limits.frame_bytes_max:
            why = f"A request of {size_bytes} bytes is too large to be forwarded to the active controller; divide it."
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        if (
            self._requests[host] * 2 >= limits.requests_max
            or self.requests >= limits.requests_max
            or (self._bytes[host] and (self._bytes[host] + size_bytes) * 2 > limits.request_bytes_max)
            or self.size_bytes + size_bytes > limits.request_bytes_max
        ):
            why = f"{self.requests} requests of {self.size_bytes} bytes wait for the active controller already."
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)
        self.requests += 1
        self.size_bytes += size_bytes
        self._requests[host] += 1
        self._bytes[host] += size_bytes

    def leave(self, host: str, size_bytes: int) -> None:
        """One has its answer, or its client has gone."""
        self.requests -= 1
        self.size_bytes -= size_bytes
        self._requests[host] -= 1
        self._bytes[host] -= size_bytes
        if not self._requests[host]:
            del self._requests[host], self._bytes[host]


class _Reconnect(Exception):
    """The client has to connect anew, and learn which versions are served."""
