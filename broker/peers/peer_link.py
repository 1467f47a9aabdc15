"""One link to another node on the event loop: requests out, answers back. The decisions are `PeerState`'s.

A request goes out as soon as there is a connection, and its answer comes as the result of a future. Answers come in the
order of the requests, so one that waits at the other node (a Fetch with a long ``max_wait_ms``) holds up those behind
it: such requests have a link of their own. A node that is slow or silent costs no other link anything: each has its
own connection, its own bounds and its own timer.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, Final, cast

from stratalog.broker.peers.answer_receiver import AnswerReceiver
from stratalog.broker.peers.dialer import Dialer
from stratalog.broker.peers.peer_errors import (
    Peer,
    PeerBusy,
    PeerClosed,
    PeerError,
    PeerRefused,
    PeerTimeout,
    PeerUnavailable,
)
from stratalog.broker.peers.peer_events import (
    Action,
    Agreed,
    Answered,
    AskAgain,
    Asked,
    Closing,
    Deliver,
    Dial,
    Event,
    Fail,
    Failure,
    HangUp,
    Lost,
    Negotiate,
    Opened,
    Phase,
    Send,
    Ticked,
    Unsent,
)
from stratalog.broker.peers.peer_requests import ApiRanges, PeerRequest, read_versions, versions_frame
from stratalog.broker.peers.peer_state import PeerLimits, PeerState
from stratalog.broker.runtime.alarm import Alarm
from stratalog.wire.errors import ErrorCode, Invalid
from stratalog.wire.frame import FrameError, read_length
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.schema import Buffer, Message

__all__ = ["PeerLink"]

DEFAULT_LIMITS: Final = PeerLimits()

ELEMENTS_AT_ONCE: Final = 8_000
"""Answers with more elements in their lists, partitions first of all, are read in a thread: they take above 20 ms."""

_ERRORS: Final[dict[Failure, type[PeerError]]] = {
    Failure.BUSY: PeerBusy,
    Failure.TIMEOUT: PeerTimeout,
    Failure.UNAVAILABLE: PeerUnavailable,
    Failure.REFUSED: PeerRefused,
    Failure.CLOSED: PeerClosed,
}

log = logging.getLogger(__name__)


class PeerLink:
    """Requests to one listener of one node. Used on one event loop only."""

    def __init__(
        self,
        peer: Peer,
        *,
        dialer: Dialer,
        executor: Executor,
        monotonic: Callable[[], float],
        draw: Callable[[], float],
        client_id: str,
        negotiates: bool = True,
        limits: PeerLimits = DEFAULT_LIMITS,
    ) -> None:
        """No connection is made before the first request.

        ``negotiates``: each connection begins with ApiVersions. Without, each request names its version, as those of
        Kafka's replica fetchers do. ``executor`` reads very large answers. ``draw`` gives numbers from 0.0 up to but without 1.0, for jitter.
        """
        self.peer = peer
        self._dialer = dialer
        self._executor = executor
        self._client_id = client_id
        self._negotiates = negotiates
        self._limits = limits
        self._state = PeerState(limits, negotiates=negotiates, draw=draw)
        self._requests: dict[int, PeerRequest] = {}
        self._number = 0
        self._ranges: ApiRanges | None = None
        self._versions_version = -1
        self._connection: _Connection | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._alarm = Alarm(monotonic, lambda: self._step(Ticked()))
        self._frame: Buffer = b""
        self._ended: asyncio.Task[None] | None = None
        """The latest attempt that was given up."""
        self.connections = 0
        """Connections made so far."""

    def __repr__(self) -> str:
        state = self._state
        return f"<PeerLink to {self.peer}: {state.phase.value}, {state.requests} requests, {state.failures} failures>"

    @property
    def connected(self) -> bool:
        """Whether requests go out at once."""
        return self._state.phase is Phase.READY

    @property
    def versions(self) -> ApiRanges | None:
        """The versions that the node serves, by API key; None while there is no connection that has told them."""
        return self._ranges

    @property
    def requests(self) -> int:
        """Requests that wait or are in flight."""
        return self._state.requests

    def ask(
        self, request: Message, *, timeout_ms: int, version: int | None = None, version_min: int = 0
    ) -> asyncio.Future[Any]:
        """Send a request, and return its answer to come: the message that belongs to it.

        Without ``version`` it goes in the highest that both sides speak, which drops the fields that this one lacks;
        with ``version_min`` it goes in none below that one. The answer may refer to the memory in which it
        came, and holds it. The future fails with `PeerUnavailable`, `PeerTimeout`, `PeerBusy`, `PeerClosed` or
        `PeerUnsupported`; it never stays open longer than ``timeout_ms`` and a little. To cancel it withdraws a request
        that has not been sent. Raises `EncodeError` and `Invalid` at once for a request that no version can carry.
        """
        if version is None and not self._negotiates:
            raise Invalid(f"{self.peer}: a link without negotiation needs the version of each request")
        self._number += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asked = PeerRequest(self.peer, request, version, future, version_min)
        size_bytes = asked.prepare(self._ranges)
        if not future.done():
            self._requests[self._number] = asked
            self._step(Asked(self._number, timeout_ms, size_bytes))
        return future

    def close(self) -> None:
        """Fail what waits with `PeerClosed`, and close the connection. A second call does nothing."""
        self._step(Closing())
        self._alarm.cancel()

    async def wait_closed(self) -> None:
        """Wait until an attempt to connect that :meth:`close` has ended is gone."""
        if self._ended is not None:
            await asyncio.wait([self._ended])

    def _step(self, event: Event) -> None:
        self._apply(self._state.step(event, self._alarm.now_ms()))
        self._alarm.set(self._state.wake_at_ms)

    def _later(self, event: Event) -> None:
        """Say it when the present actions are done."""
        asyncio.get_running_loop().call_soon(self._step, event)

    def _apply(self, actions: Iterable[Action]) -> None:
        out: list[bytes] = []
        for action in actions:
            if isinstance(action, Send):
                self._send(action, out)
            elif isinstance(action, Deliver):
                self._deliver(action.request)
            elif isinstance(action, Fail):
                self._fail(action)
            elif isinstance(action, HangUp):
                self._hang_up()
                self._say(action.why, self._state.failures)
            elif isinstance(action, Dial):
                self._dial(action)
            elif isinstance(action, Negotiate):
                out.append(versions_frame(self._versions_version, action.correlation_id, self._client_id))
            else:
                self._agree()
        if out and self._connection is not None:
            self._connection.write(out[0] if len(out) == 1 else b"".join(out))

    def _send(self, action: Send, out: list[bytes]) -> None:
        request = self._requests[action.request]
        if not request.future.done():
            frame = request.frame(self._ranges, action.correlation_id, self._client_id)
            if frame is not None:
                out.append(frame)
                return
        del self._requests[action.request]
        self._later(Unsent(action.request))

    def _fail(self, action: Fail) -> None:
        """End a request, unless `_send` has: its `Unsent` may come later in the same turn."""
        request = self._requests.pop(action.request, None)
        if request is not None:
            request.fail(_ERRORS[action.failure], action.why)

    def _deliver(self, number: int) -> None:
        request = self._requests.pop(number)
        if request.future.done():
            return
        frame = self._frame
        try:
            answer = request.answer(frame, ELEMENTS_AT_ONCE)
        except Invalid as error:
            if len(frame) > ELEMENTS_AT_ONCE and self._connection is not None:
                self._read_aside(request, frame, self._connection)
            else:
                self._unreadable(request, error, self._connection)
        else:
            request.future.set_result(answer)

    def _read_aside(self, request: PeerRequest, frame: Buffer, connection: _Connection) -> None:
        """Read an answer of many elements in a thread: the loop goes on meanwhile."""

        def read(reading: asyncio.Future[Message]) -> None:
            error = reading.exception()
            if error is not None:
                self._unreadable(request, error, connection)
            elif not request.future.done():
                request.future.set_result(reading.result())

        try:
            reading = asyncio.get_running_loop().run_in_executor(self._executor, request.answer, frame)
        except RuntimeError as error:  # the executor has been shut down
            self._unreadable(request, error, connection)
        else:
            reading.add_done_callback(read)

    def _unreadable(self, request: PeerRequest, error: BaseException, connection: _Connection | None) -> None:
        why = f"an answer cannot be read: {error}"
        request.fail(PeerUnavailable, why)
        if connection is self._connection:
            self._end(why)

    def _agree(self) -> None:
        connection = self._connection
        if connection is None:
            return
        version = self._versions_version
        try:
            answer = read_versions(self._frame, version)
        except Invalid as error:
            self._end(f"its API versions cannot be read: {error}")
            return
        if not answer.error_code:
            self._ranges = answer.ranges
            self._step(Agreed(connection.attempt))
        elif answer.error_code == ErrorCode.UNSUPPORTED_VERSION and version:
            self._versions_version = max(0, min(answer.ranges.get(ApiVersionsRequest.api_key, (0, 0))[1], version - 1))
            self._step(AskAgain(connection.attempt))
        else:
            self._end(f"it refuses to name its API versions: error {answer.error_code}")

    def _dial(self, action: Dial) -> None:
        self._versions_version = ApiVersionsRequest.versions[1]
        connection = _Connection(self, action.attempt, AnswerReceiver(self._limits.answer_bytes_max))
        self._connection = connection
        self._dialing = asyncio.get_running_loop().create_task(self._connect(connection, action.failures))

    async def _connect(self, connection: _Connection, failures: int) -> None:
        try:
            await self._dialer.dial(lambda: connection, self.peer.host, self.peer.port, failures)
        except Exception as error:  # noqa: BLE001 - a link that cannot connect says why, whatever the reason
            refused = isinstance(error, ConnectionRefusedError)
            self.connection_lost(connection, f"cannot connect: {_text_of(error)}", refused=refused)
        finally:
            if self._connection is connection:
                self._dialing = None

    def _hang_up(self) -> None:
        """End the attempt or the connection; `PeerState` knows."""
        connection, self._connection, self._ranges = self._connection, None, None
        dialing, self._dialing = self._dialing, None
        if connection is not None:
            connection.end()
        if dialing is not None:
            dialing.cancel()
            self._ended = dialing

    def _end(self, why: str) -> None:
        """End the connection because of what came, when the present actions are done."""
        connection = self._connection
        if connection is not None:
            self._hang_up()
            self._say(why, self._state.failures + 1)
            self._later(Lost(connection.attempt, why))

    def _say(self, why: str, failures: int) -> None:
        """One line for the first failure in a row; the others are for those who look closely."""
        first = failures == 1 and self._state.phase is not Phase.CLOSED
        log.log(logging.WARNING if first else logging.DEBUG, "%s: %s", self.peer, why)

    # -- said by connections ------------------------------------------------------------------------------

    def connection_made(self, connection: _Connection) -> None:
        """An attempt has become a connection."""
        if connection is not self._connection:
            connection.end()
            return
        self.connections += 1
        log.log(logging.INFO if self._state.failures else logging.DEBUG, "%s: connected", self.peer)
        self._step(Opened(connection.attempt))

    def frame_received(self, connection: _Connection, frame: Buffer) -> None:
        """A whole answer has come."""
        (correlation_id,) = read_length(frame, 0)
        self._frame = frame
        self._step(Answered(connection.attempt, correlation_id))
        self._frame = b""

    def connection_lost(self, connection: _Connection, why: str, *, refused: bool = False) -> None:
        """An attempt has failed, or a connection has ended; ``refused`` as in `Lost`."""
        if connection is self._connection:
            self._connection = self._ranges = None
            connection.end()
            self._step(Lost(connection.attempt, why, refused))
            self._say(why, self._state.failures)


def _text_of(error: Exception) -> str:
    """The system's words, where it has some: asyncio's have the address, which the name of the node has, too."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)


class _Connection(asyncio.BufferedProtocol):
    """One attempt, and the connection that it became."""

    __slots__ = ("_ended", "_link", "_receiver", "_transport", "attempt")

    def __init__(self, link: PeerLink, attempt: int, receiver: AnswerReceiver) -> None:
        self._link = link
        self.attempt = attempt
        self._receiver = receiver
        self._transport: asyncio.Transport | None = None
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._link.connection_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's name
        return self._receiver.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._receiver.received(nbytes):
                if self._ended:
                    return
                self._link.frame_received(self, frame)
        except FrameError as error:
            self._link.connection_lost(self, str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        why = "it closed the connection" if exc is None else f"the connection broke: {exc}"
        self._link.connection_lost(self, why)

    def write(self, data: bytes) -> None:
        """Send bytes behind those that were sent before."""
        if self._transport is not None and not self._ended:
            self._transport.write(data)

    def end(self) -> None:
        """Close now. Bytes that the kernel has taken still go out, others are dropped."""
        self._ended = True
        transport = self._transport
        if transport is None:
            return
        if transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()
