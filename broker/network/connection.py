"""One client connection: frames parsed where they were received, answers in the order of the requests.

Everything runs in the transport's callbacks. A client that would take more than its share (of memory, parked answers,
unsent bytes or time of the loop) *stalls* its connection: reading stops until the reason is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from stratalog.broker.network.connection_services import Client, Quota, Services
from stratalog.broker.network.receiving import FrameReceiver, Shortcut
from stratalog.broker.network.sending import PlainSender, Sender, TransportSender
from stratalog.broker.network.stall_reasons import ENDED, MEMORY, MUTED, PARKED, QUEUED, SLICED, TURN
from stratalog.broker.settings.listeners import Listener, SecurityProtocol
from stratalog.wire.frame import FrameError, ResponseQueue, ResponseSlot
from stratalog.wire.parts import Part

__all__ = ["Connection"]

log = logging.getLogger(__name__)

JOINED_ANSWER_BYTES = 8 << 10
"""Answers up to this size wait for the other answers of the same read, to leave with them in one write."""

FRAMES_PER_TURN = 128
"""After this many requests of one connection, or its share of a round's time, the others get their turn."""

AUTHENTICATION_SECONDS = 10.0
"""How long a connection may stay unauthenticated."""


class Connection(asyncio.BufferedProtocol):
    """A client's connection, from accept to close.

    ``principal`` and ``authenticated`` belong to authentication; ``muted_until`` (monotonic seconds) to quotas. ``patient``
    says that the latest fetch was answered from the archive, ``client_id`` is that of the latest request, ``stalled`` is
    not 0 while no request may be handled. ``software_name`` and ``software_version`` come with ApiVersions.
    """

    __slots__ = (
        "_descriptor",
        "_flush_due",
        "_handling",
        "_look_due",
        "_on_close",
        "_on_open",
        "_opened_at",
        "_out",
        "_parked_max",
        "_paused",
        "_receiver",
        "_responses",
        "_sender",
        "_services",
        "_transport",
        "_unmute",
        "authenticated",
        "client_id",
        "client_id_bytes",
        "closed",
        "elements_max",
        "frame_bytes_max",
        "host",
        "listener",
        "muted_until",
        "patient",
        "peer",
        "principal",
        "quota",
        "read_at",
        "shortcut",
        "software_name",
        "software_version",
        "stalled",
        "tags_max",
    )

    _transport: asyncio.Transport
    _sender: Sender

    def __init__(
        self,
        services: Services[Connection],
        listener: Listener,
        on_open: Callable[[Connection], bool],
        on_close: Callable[[Connection], None],
    ) -> None:
        """``on_open`` says whether the connection may stay; ``on_close`` is called when it has ended."""
        self._services = services
        self._on_open = on_open
        self._on_close = on_close
        self.listener = listener
        self.principal = "User:ANONYMOUS"
        self.authenticated = listener.protocol in {SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL}
        limits = services.limits
        self._parked_max = limits.parked_max
        self.elements_max, self.tags_max = limits.elements_max, limits.tags_max
        self.frame_bytes_max = limits.frame_bytes_max
        if not self.authenticated:
            self.frame_bytes_max = min(limits.frame_bytes_max, limits.unauthenticated_frame_bytes_max)
        self.client_id: str | None = None
        self.client_id_bytes = b""
        self.shortcut: Shortcut | None = None
        self.quota: Quota | None = None
        """The client's limits; None if there are none."""
        self.software_name = self.software_version = ""
        self.host = self.peer = ""
        self.muted_until = 0.0
        self.read_at = 0.0
        self.closed = self.patient = False
        self._opened_at = 0.0
        self._receiver = FrameReceiver(services.buffers, services.clock.monotonic, partial(self._unstall, MEMORY))
        self._responses = ResponseQueue()
        self._out: list[Part] = []
        self._flush_due = self._look_due = False
        self._handling = False
        self._paused = False
        self.stalled = 0
        self._unmute: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is up (for TLS: the handshake is done)."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        services = self._services
        self._opened_at = self.read_at = services.clock.monotonic()
        peer = transport.get_extra_info("peername") or ("?", 0)
        self.host = str(peer[0])
        self.peer = f"{self.host}:{peer[1]} on {self.listener.name}"
        self._receiver.from_host(self.host)
        its_socket = transport.get_extra_info("socket")
        self._descriptor = -1 if its_socket is None else its_socket.fileno()
        if transport.get_extra_info("ssl_object") is None:
            try:
                self._sender = PlainSender(
                    services.loop, self, services.page_cache, services.metrics, self._descriptor, services.turns
                )
            except OSError as error:  # no descriptor left
                self._sender = Sender(services.loop, self, services.page_cache, services.metrics)
                log.warning("refusing a connection from %s: %s", self.peer, error)
                self.abort()
                return
        else:
            self._sender = TransportSender(services.loop, self, services.page_cache, services.metrics, transport)
        if not self._on_open(self):
            self.abort()
        elif isinstance(self._sender, PlainSender):
            self._receiver.read_when_ready(services.loop, transport, self._sender.receive_into, self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why it ended changes nothing
        """The transport is gone: give everything back."""
        self._end()
        self._receiver.end()
        if self._unmute is not None:
            self._unmute.cancel()
        for slot in self._responses.take_all():
            abandon = getattr(slot, "on_abandon", None)
            if abandon is not None:
                abandon()
        self.remember(None)
        self._on_close(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the size of the frame is known better here
        """Where the transport writes the next bytes."""
        return self._receiver.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """``nbytes`` more have been received."""
        services = self._services
        services.metrics.bytes_received += nbytes
        self.read_at = services.clock.monotonic()
        if self.stalled:
            self._receiver.received(nbytes)
        else:
            self._handle_frames(nbytes, self.read_at)

    def pause_writing(self) -> None:
        """The transport's own buffer is full (TLS only)."""
        if isinstance(self._sender, TransportSender):
            self._sender.pause()

    def resume_writing(self) -> None:
        """The transport's own buffer has room again (TLS only)."""
        if isinstance(self._sender, TransportSender):
            self._sender.resume()

    def lease(self) -> Callable[[], None]:
        """Keep the bytes of the request being handled until the returned callable is called, exactly once."""
        if not self._handling:
            raise RuntimeError("a lease can only be taken while the request is being handled")
        return self._receiver.lease()

    def answer(self, slot: ResponseSlot, parts: list[Part]) -> None:
        """Send the answer to the request being handled, behind those that are parked."""
        if self._responses:
            slot.parts = parts
            self._responses.append(slot)
        else:
            self._out += parts
            if not self._handling:
                self._schedule_flush()
            elif len(parts) != 1 or len(parts[0]) > JOINED_ANSWER_BYTES:
                # Not worth joining; and the queue must be known before the next request adds to it.
                self._flush()

    def park(self, slot: ResponseSlot) -> None:
        """Give a request its place in the order; call :meth:`deliver` when ``slot.parts`` has become known."""
        self._responses.append(slot)
        if slot.parts is not None:
            self.deliver()
        elif len(self._responses) >= self._parked_max:
            self._stall(PARKED)

    def deliver(self) -> None:
        """A parked answer is known: send those whose turn has come, together, at the end of the loop's turn."""
        if not self._handling:
            self._schedule_flush()

    def hold(self) -> None:
        """Handle no further request: the work for one that was handled takes several turns of the loop."""
        self._stall(SLICED)
        self._receiver.watch_end(self._services.hang_ups, self._descriptor, self)

    def release(self) -> None:
        """Such a work has come to its end."""
        self._unstall(SLICED)

    def gone(self) -> bool:
        """Whether the client has hung up; that is noticed while the connection is not read, too."""
        return self.closed

    def mute_until(self, deadline: float) -> None:
        """Handle no request before ``deadline`` (monotonic seconds): a quota is exceeded."""
        if deadline <= self.muted_until or self.closed:
            return
        self.muted_until = deadline
        if self._unmute is not None:
            self._unmute.cancel()
        delay = deadline - self._services.clock.monotonic()
        self._unmute = self._services.loop.call_later(max(delay, 0.0), self._unstall, MUTED)
        self._stall(MUTED)

    def identify(self, client_id: str | None, client_id_bytes: bytes) -> None:
        """How the client calls itself. If otherwise than before, what is known of its requests may not hold."""
        if client_id != self.client_id:
            self.remember(None)
        self.client_id = client_id
        self.client_id_bytes = client_id_bytes
        self.limit(self._services.quota_of(self))

    def quota_of(self, client: Client) -> Quota | None:
        """The limits of a client whose requests another node forwards over this connection; None if there are none."""
        return self._services.quota_of(client)

    def limit(self, quota: Quota | None) -> None:
        """From now on ``quota`` holds for the client. Limited requests take the way on which they are counted."""
        self.quota = quota
        if quota is not None:
            self.remember(None)

    def remember(self, shortcut: Shortcut | None) -> None:
        """How requests like the latest ones are handled with less work from now on, if at all."""
        if self.shortcut is not None:
            self.shortcut.end()
        self.shortcut = shortcut

    def look(self) -> None:
        """There is an answer to what a resting connection may have sent meanwhile: see to it at the end of this turn."""
        if not self._look_due:
            self._look_due = True
            self._services.tick.defer(self._look)

    def _look(self) -> None:
        self._look_due = False
        self._receiver.look()

    def authenticate(self, principal: str) -> None:
        """The client has proved to be ``principal``; the limits of strangers no longer hold."""
        self.principal = principal
        self.authenticated = True
        self.frame_bytes_max = self._services.limits.frame_bytes_max
        self.limit(self._services.quota_of(self))

    def refuse(self, reason: str) -> None:
        """Close because of what the client sent, with one line in the log."""
        if not self.closed:
            self._services.metrics.frames_refused += 1
            log.warning("closing the connection from %s: %s", self.peer, reason)
            self._flush()
            self.abort()

    def abort(self) -> None:
        """Close now; what is queued is dropped."""
        if not self.closed:
            self._end()
            self._transport.abort()

    @property
    def parked(self) -> int:
        """Requests whose answers wait."""
        return len(self._responses)

    @property
    def idle(self) -> bool:
        """True if no request is being received, parked or answered. A muted connection counts as idle."""
        receiving = self._receiver.unread_bytes and not self.stalled & MUTED
        return not (self._responses or self._sender.queued_bytes or receiving)

    def sweep(self, now: float, idle_seconds: float) -> str | None:
        """Called now and then: why the connection should be closed, if it should."""
        quiet = now - max(self.read_at, self._sender.busy_at(now, waits=bool(self._responses)))
        if quiet > idle_seconds and not self._responses and not self.stalled & MUTED:
            return f"idle for {quiet:.0f} s"
        if not self.authenticated and now - self._opened_at > AUTHENTICATION_SECONDS:
            return f"not authenticated within {AUTHENTICATION_SECONDS:.0f} s"
        if self._paused:
            self._receiver.watch_end(self._services.hang_ups, self._descriptor, self)
        return self._receiver.too_slow(now, stalled=bool(self.stalled))

    def send_drained(self) -> None:
        """Everything queued has been sent."""
        self._unstall(QUEUED)

    def send_failed(self, error: Exception) -> None:
        """Mark the connection as broken for sending."""
        if not isinstance(error, ConnectionError):
            log.warning("closing the connection to %s: %s", self.peer, error)
        self.abort()

    def _handle_frames(self, count: int, begun_at: float) -> None:
        """``count`` more bytes are there, the turn began then: handle the complete frames, as far as nothing stalls the connection."""
        services = self._services
        receiver = self._receiver
        self._handling = True
        try:
            if receiver.handle(count, self, services.dispatch, FRAMES_PER_TURN, services.receive_turns.end(begun_at)):
                self._stall(TURN)
                services.receive_turns.wait(self._take_turn)
        except FrameError as error:
            self.refuse(str(error))
        finally:
            self._handling = False
        if self._out or self._responses:
            self._flush()
        if receiver.buffer is None and services.buffers.memory.accepts:
            return
        if not self.closed and not receiver.may_go_on():
            self._stall(MEMORY)
            receiver.watch_end(services.hang_ups, self._descriptor, self)
        if receiver.large is not None:
            # A client that does not take its answers is not excused: it alone can change that.
            receiver.large.follow(bool(self.stalled & ~QUEUED), services.clock.monotonic())

    def _schedule_flush(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._services.tick.defer(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self.closed:
            return
        parts, responses = self._out, self._responses
        if responses:
            responses.take_ready(parts)
            if responses.finished_bytes > self._services.limits.queued_bytes_max:
                self._stall(PARKED)
            elif self.stalled & PARKED and len(responses) <= self._parked_max // 2:
                self._unstall(PARKED)
        if not parts:
            return
        self._out = []
        sender = self._sender
        sender.send(parts)
        if sender.queued_bytes > self._services.limits.queued_bytes_max:
            self._stall(QUEUED)

    def _stall(self, reason: int) -> None:
        self.stalled |= reason
        if not self._paused and not self.closed:
            self._paused = True
            self._transport.pause_reading()

    def _unstall(self, reason: int) -> None:
        if not self.stalled & reason:
            return
        self.stalled &= ~reason
        if not self.stalled:
            self._services.tick.defer(self._go_on)

    def _take_turn(self) -> None:
        self.stalled &= ~TURN
        self._go_on()

    def _go_on(self) -> None:
        if self.stalled or self._handling:
            return
        self._receiver.frame_since = now = self._services.clock.monotonic()
        try:
            self._handle_frames(0, now)
        except Exception:
            log.exception("the connection from %s failed", self.peer)
            self.abort()
        if not self.stalled and self._paused:
            self._paused = False
            self._services.hang_ups.forget(self._descriptor)
            self._transport.resume_reading()

    def _end(self) -> None:
        self.closed = True
        self.stalled |= ENDED
        self._out.clear()
        self._services.hang_ups.forget(self._descriptor)
        self._sender.close()
