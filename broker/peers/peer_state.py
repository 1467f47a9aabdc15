"""Decides about one link to another node: when to connect, what to send, what has failed. Pure: ``step(event, now_ms)``.

Requests wait until there is a connection and then go out in their order; answers come in that order. A connection is
made when a request waits for it. An attempt that fails, or takes too long, fails the requests that waited for it, and
the next one begins after the back-off of ``reconnect.backoff.ms``. A request that is in flight beyond its time costs the
connection, as in Kafka: no later answer could be trusted to come. All that is kept is bounded by `PeerLimits`.

The back-off grows until a request is answered, not just until there is a connection: a node that accepts and hangs up
is asked less and less often, too. Sources: Kafka's ``NetworkClient``, ``ClusterConnectionStates``, KIP-144, KIP-601.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from msgspec import Struct

from stratalog.broker.peers.backoff import Backoff
from stratalog.broker.peers.peer_events import (
    Action,
    Agree,
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

__all__ = ["PeerLimits", "PeerState"]

CORRELATION_ID_MAX: Final = 2**31 - 1

CONNECT: Final = Backoff(10_000, 30_000)
RECONNECT: Final = Backoff(50, 1000)


class PeerLimits(Struct, frozen=True, kw_only=True):
    """The bounds of one link. Defaults are Kafka's where Kafka has the setting."""

    requests_max: int = 128
    """Requests that wait or are in flight, together."""
    request_bytes_max: int = 32 << 20
    """Their bytes, together."""
    in_flight_max: int = 16
    """Requests that are sent and not yet answered."""
    answer_bytes_max: int = 100 << 20
    """The bytes of one answer (Kafka's ``socket.request.max.bytes``)."""
    connect: Backoff = CONNECT
    """How long an attempt to connect may take (``socket.connection.setup.timeout.ms`` and ``.max.ms``)."""
    reconnect: Backoff = RECONNECT
    """How long to wait before the next one (``reconnect.backoff.ms`` and ``.max.ms``)."""


class _Request:
    __slots__ = ("correlation_id", "deadline_ms", "request", "size_bytes", "timeout_ms")

    def __init__(self, asked: Asked, now_ms: int) -> None:
        self.request = asked.request
        self.timeout_ms = asked.timeout_ms
        self.deadline_ms = now_ms + asked.timeout_ms
        self.size_bytes = asked.size_bytes
        self.correlation_id = -1


class PeerState:
    """The state of one link."""

    __slots__ = (
        "_attempt",
        "_connect_by_ms",
        "_correlation_id",
        "_draw",
        "_earliest_ms",
        "_in_flight",
        "_last_loss",
        "_limits",
        "_negotiated_id",
        "_negotiates",
        "_not_before_ms",
        "_waiting",
        "failures",
        "phase",
        "request_bytes",
    )

    def __init__(self, limits: PeerLimits, *, negotiates: bool, draw: Callable[[], float]) -> None:
        """``negotiates``: a new connection begins with the API versions. ``draw``: see `Backoff.after`."""
        self._limits = limits
        self._negotiates = negotiates
        self._draw = draw
        self.phase = Phase.IDLE
        self.failures = 0
        """Attempts and connections that failed since the last answer."""
        self.request_bytes = 0
        """Bytes of the requests that wait or are in flight."""
        self._attempt = 0
        self._correlation_id = CORRELATION_ID_MAX
        self._negotiated_id = -1
        self._connect_by_ms = self._not_before_ms = 0
        self._waiting: dict[int, _Request] = {}
        self._in_flight: deque[_Request] = deque()
        self._earliest_ms: float = inf
        self._last_loss = ""

    @property
    def requests(self) -> int:
        """Requests that wait or are in flight."""
        return len(self._waiting) + len(self._in_flight)

    @property
    def in_flight(self) -> int:
        """Requests that are in flight."""
        return len(self._in_flight)

    @property
    def wake_at_ms(self) -> float:
        """When `Ticked` is due at the latest; infinite if nothing is waited for. It may be early, never late."""
        due = self._earliest_ms
        if self.phase in {Phase.DIALING, Phase.AGREEING}:
            return min(due, self._connect_by_ms)
        if self.phase is Phase.IDLE and self._waiting:
            return min(due, self._not_before_ms)
        return due

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take in ``event`` and say what is to be done, in this order. ``now_ms`` never goes back."""
        match event:
            case Answered():
                return self._answered(event, now_ms)
            case Asked():
                return self._asked(event, now_ms)
            case Ticked():
                return self._ticked(now_ms)
            case Unsent():
                return self._unsent(event.request, now_ms)
            case Closing():
                return self._closing()
            case Opened() | Agreed() | AskAgain() | Lost():
                current = event.attempt == self._attempt and self.phase not in {Phase.IDLE, Phase.CLOSED}
                return self._connection_changed(event, now_ms) if current else []

    def _connection_changed(self, event: Opened | Agreed | AskAgain | Lost, now_ms: int) -> list[Action]:
        if isinstance(event, Lost):
            # The other end closes connections that are idle: that is no failure, and no reason to wait.
            idle = self.phase is Phase.READY and not self._in_flight and not self.failures
            return self._disconnect(event.why, now_ms, failed=not idle, refused=event.refused)
        if isinstance(event, AskAgain) or (isinstance(event, Opened) and self._negotiates):
            self.phase = Phase.AGREEING
            self._negotiated_id = self._next_correlation_id()
            return [Negotiate(self._negotiated_id)]
        self.phase = Phase.READY
        return self._advance(now_ms)

    def _asked(self, event: Asked, now_ms: int) -> list[Action]:
        if self.phase is Phase.CLOSED:
            return [Fail(event.request, Failure.CLOSED, "the link is closed")]
        limits = self._limits
        if self.requests >= limits.requests_max or self.request_bytes + event.size_bytes > limits.request_bytes_max:
            held = f"{self.requests} requests of {self.request_bytes} bytes wait for it already ({self.phase.value})"
            return [Fail(event.request, Failure.BUSY, f"{held}; one of {event.size_bytes} bytes has no room")]
        request = _Request(event, now_ms)
        self._waiting[request.request] = request
        self.request_bytes += request.size_bytes
        self._earliest_ms = min(self._earliest_ms, request.deadline_ms)
        return self._advance(now_ms)

    def _advance(self, now_ms: int) -> list[Action]:
        """Send, or connect, if something waits and may."""
        actions: list[Action] = []
        waiting = self._waiting
        if self.phase is Phase.READY:
            in_flight = self._in_flight
            while waiting and len(in_flight) < self._limits.in_flight_max:
                request = waiting.pop(next(iter(waiting)))
                request.correlation_id = self._next_correlation_id()
                in_flight.append(request)
                actions.append(Send(request.request, request.correlation_id))
        elif self.phase is Phase.IDLE and waiting and now_ms >= self._not_before_ms:
            self.phase = Phase.DIALING
            self._attempt += 1
            self._connect_by_ms = now_ms + self._limits.connect.after(self.failures, self._draw)
            actions.append(Dial(self._attempt, self.failures))
        return actions

    def _next_correlation_id(self) -> int:
        self._correlation_id = 0 if self._correlation_id == CORRELATION_ID_MAX else self._correlation_id + 1
        return self._correlation_id

    def _answered(self, event: Answered, now_ms: int) -> list[Action]:
        if event.attempt != self._attempt:
            return []
        if self.phase is Phase.AGREEING and event.correlation_id == self._negotiated_id:
            return [Agree()]
        if self.phase is Phase.READY and self._in_flight:
            request = self._in_flight[0]
            if request.correlation_id == event.correlation_id:
                self._in_flight.popleft()
                self._release(request)
                self.failures = 0
                return [Deliver(request.request), *self._advance(now_ms)]
            why = f"answer {event.correlation_id} came where {request.correlation_id} was due"
        elif self.phase in {Phase.AGREEING, Phase.READY}:
            why = f"answer {event.correlation_id} came, which was not asked for"
        else:
            return []
        return [HangUp(event.attempt, why), *self._disconnect(why, now_ms)]

    def _unsent(self, number: int, now_ms: int) -> list[Action]:
        for request in self._in_flight:
            if request.request == number:
                self._in_flight.remove(request)
                self._release(request)
                return self._advance(now_ms)
        return []

    def _release(self, request: _Request) -> None:
        self.request_bytes -= request.size_bytes
        if not self._waiting and not self._in_flight:
            self._earliest_ms = inf

    def _disconnect(self, why: str, now_ms: int, *, failed: bool = True, refused: bool = False) -> list[Action]:
        """The connection or the attempt has ended: fail its requests, and begin the back-off if that was a failure.

        Requests that wait behind a connection were not part of it, and wait for the next one.
        """
        lost: list[_Request] = [*self._in_flight]
        self._in_flight.clear()
        if self.phase is not Phase.READY:
            lost += self._waiting.values()
            self._waiting.clear()
        self.phase = Phase.IDLE
        self._last_loss = why
        self._not_before_ms = now_ms
        if failed:
            self._not_before_ms += self._limits.reconnect.after(self.failures, self._draw)
            self.failures += 1
        for request in lost:
            self._release(request)
        failure = Failure.REFUSED if refused else Failure.UNAVAILABLE
        actions: list[Action] = [Fail(request.request, failure, why) for request in lost]
        return actions + self._advance(now_ms)

    def _ticked(self, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        if now_ms >= self._earliest_ms:
            actions += self._expire(now_ms)
        if self.phase in {Phase.DIALING, Phase.AGREEING} and now_ms >= self._connect_by_ms:
            why = f"no connection in time ({self.phase.value})"
            actions += [HangUp(self._attempt, why), *self._disconnect(why, now_ms)]
        return actions + self._advance(now_ms)

    def _expire(self, now_ms: int) -> list[Action]:
        """Fail the requests whose time is over."""
        actions: list[Action] = []
        late = [request for request in self._waiting.values() if request.deadline_ms <= now_ms]
        state = f"{self.phase.value}; {self._last_loss}" if self._last_loss else self.phase.value
        for request in late:
            del self._waiting[request.request]
            self._release(request)
            why = f"could not be sent within {request.timeout_ms} ms ({state})"
            actions.append(Fail(request.request, Failure.TIMEOUT, why))
        silent = [request for request in self._in_flight if request.deadline_ms <= now_ms]
        if silent:
            for request in silent:
                self._in_flight.remove(request)
                self._release(request)
                actions.append(Fail(request.request, Failure.TIMEOUT, f"no answer within {request.timeout_ms} ms"))
            why = f"no answer within {silent[0].timeout_ms} ms to a request"
            actions += [HangUp(self._attempt, why), *self._disconnect(why, now_ms)]
        left = [*self._waiting.values(), *self._in_flight]
        self._earliest_ms = min((request.deadline_ms for request in left), default=inf)
        return actions

    def _closing(self) -> list[Action]:
        """Fail what is left; no request is taken any more."""
        actions: list[Action] = []
        if self.phase not in {Phase.IDLE, Phase.CLOSED}:
            actions.append(HangUp(self._attempt, "the link is closed"))
        self.phase = Phase.CLOSED
        left = [*self._in_flight, *self._waiting.values()]
        self._in_flight.clear()
        self._waiting.clear()
        self.request_bytes, self._earliest_ms = 0, inf
        return actions + [Fail(request.request, Failure.CLOSED, "the link is closed") for request in left]
