"""Finding the frames in what a connection receives, where they lie: no copy, no object per byte range but the view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

from stratalog.broker.buffers import BASE_BYTES, BufferPool, ReceiveBuffer
from stratalog.broker.event_loop import ready_sockets_of
from stratalog.wire.frame import HEADER_BYTES_MIN, check_frame_length, read_length

if TYPE_CHECKING:
    from stratalog.broker.connection import Connection

__all__ = ["EAGER_BYTES", "Dispatch", "FrameReceiver", "Shortcut"]

EAGER_BYTES = 1 << 20
"""Frames up to this size get their whole buffer at once; larger ones grow it as their bytes arrive."""

TIMED_BYTES = 512
"""The clock is not asked after smaller requests that a shortcut took: they hold too little to take long."""

SLOW_FRAME_SECONDS = 30.0
SLOW_FRAME_BYTES_PER_SECOND = 16 << 10
"""A frame must be complete after this time plus its size at this rate."""


class Dispatch(Protocol):
    """What handles one request."""

    def __call__(self, connection: Connection, frame: memoryview, /) -> None:
        """Handle ``frame``; it is valid until this returns unless it is leased."""
        ...


class Shortcut(Protocol):
    """A way to handle requests like earlier ones of the same connection with less work."""

    @property
    def rests(self) -> bool:
        """Whether the latest requests were such as can wait for a few milliseconds, and so the next one may."""
        ...

    def handle(self, connection: Connection, frame: memoryview, /) -> bool:
        """Handle the request if it is like those; False, and nothing done, if it is not. Raises nothing."""
        ...

    def nothing_came(self) -> None:
        """The connection rested, was looked at, and had sent nothing."""
        ...

    def end(self) -> None:
        """The connection handles no more requests in this way. Called once."""
        ...


class FrameReceiver:
    """The receiving half of a connection: a buffer while bytes of an unfinished frame exist, none otherwise."""

    __slots__ = (
        "_filled",
        "_forget",
        "_frame_bytes",
        "_fresh",
        "_look",
        "_monotonic",
        "_pool",
        "_position",
        "_preferred_bytes",
        "buffer",
        "frame_since",
    )

    def __init__(self, pool: BufferPool, monotonic: Callable[[], float]) -> None:
        self._pool = pool
        self._monotonic = monotonic
        self.buffer: ReceiveBuffer | None = None
        self._position = 0
        self._filled = 0
        self._frame_bytes = 4
        self._fresh = True
        self._preferred_bytes = BASE_BYTES
        self.frame_since = 0.0
        self._forget: Callable[[], None] | None = None
        self._look: Callable[[], None] | None = None

    def read_when_ready(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        receive_into: Callable[[memoryview], int],
        connection: Connection,
    ) -> None:
        """Receive without the transport where the loop allows it: the connection is told of bytes as by the transport.

        Whatever is not the usual case, the end of the stream first of all, is left to the transport.
        """
        sockets = ready_sockets_of(loop)
        if sockets is None:
            return

        descriptor = transport.get_extra_info("socket").fileno()

        def ready() -> bool:
            try:
                count = receive_into(self.writable())
            except BlockingIOError:
                if connection.shortcut is not None:
                    connection.shortcut.nothing_came()
                return True
            except OSError:
                return False
            if not count:
                return False
            try:
                connection.buffer_updated(count)
            except Exception as error:  # noqa: BLE001 - as a transport does with a protocol that fails
                loop.call_exception_handler({"message": "a connection failed", "exception": error})
                transport.abort()
            shortcut = connection.shortcut
            if shortcut is not None and shortcut.rests:
                sockets.rest(descriptor)
            return True

        sockets.tell(descriptor, ready)
        self._forget = partial(sockets.forget, descriptor)
        self._look = partial(sockets.look, descriptor)

    def look(self) -> None:
        """If the connection rests, see whether it has sent something."""
        if self._look is not None:
            self._look()

    @property
    def unread_bytes(self) -> int:
        """Bytes received and not handled."""
        return self._filled - self._position

    def writable(self) -> memoryview:
        """Where the next bytes go: behind the beginning of an unfinished frame, if there is one."""
        buffer = self.buffer
        if buffer is None:
            self._fresh = True
            if self._preferred_bytes == BASE_BYTES:
                return self._pool.common.view
            buffer = self.buffer = self._pool.take(self._preferred_bytes)
            return buffer.view
        if self._filled == buffer.capacity or self._position + self._goal_bytes() > buffer.capacity:
            buffer = self._relocate(buffer)
        return buffer.view[self._filled :]

    def received(self, count: int) -> None:
        """``count`` more bytes are there, to be handled later."""
        self._filled += count
        if self.buffer is None:
            self.buffer = self._pool.adopt()

    def handle(
        self, count: int, connection: Connection, dispatch: Dispatch, frames_max: int, turn_end: float = inf
    ) -> bool:
        """``count`` more bytes are there: handle the complete frames until one stalls the connection.

        A frame goes to the connection's shortcut, if it has one and that takes it, and to ``dispatch`` otherwise.
        True if ``frames_max`` or the time ``turn_end`` (monotonic seconds) ended it before. Raises :class:`FrameError` for a length that no request can have.
        """
        own = self.buffer
        buffer = self._pool.common if own is None else own
        view = buffer.view
        position = self._position
        self._filled = filled = self._filled + count
        left = frames_max
        while filled - position >= 4:
            (length,) = read_length(view, position)
            if not HEADER_BYTES_MIN <= length <= connection.frame_bytes_max:
                check_frame_length(length, connection.frame_bytes_max)
            begin = position + 4
            end = begin + length
            if end > filled:
                break
            position = end
            frame = view[begin:end]
            shortcut = connection.shortcut
            if shortcut is None or not shortcut.handle(connection, frame):
                dispatch(connection, frame)
                length = TIMED_BYTES  # at least: few bytes may ask for much
            left -= 1
            if length >= TIMED_BYTES and self._monotonic() > turn_end:
                left = 0
            if connection.stalled or not left:
                break
        if position == filled and own is None and buffer.users == 1:
            # Everything handled and nothing leased: the common buffer is free for the next connection.
            self._position = self._filled = 0
            return not left
        self._position = position
        self._leave(connection.read_at, begun=self._fresh or left != frames_max)
        return not left

    def lease(self) -> Callable[[], None]:
        """Keep the bytes that are being handled; see :meth:`ReceiveBuffer.lease`."""
        buffer = self.buffer
        return (self._pool.common if buffer is None else buffer).lease()

    def memory_suffices(self) -> bool:
        """Whether reading may go on: there is memory for the whole frame that has begun, or in general."""
        buffer = self.buffer
        if buffer is not None and self._frame_bytes > buffer.charge_bytes:
            return self._pool.charge(buffer, self._frame_bytes)
        return not self._pool.overdrawn

    def too_slow(self, now: float) -> str | None:
        """What to say to a client whose frame should have been complete by now."""
        self._preferred_bytes = BASE_BYTES  # called now and then: large buffers are for present traffic
        taken = now - self.frame_since
        if (
            self._filled > self._position
            and taken > SLOW_FRAME_SECONDS + self._frame_bytes / SLOW_FRAME_BYTES_PER_SECOND
        ):
            return f"a frame of {self._frame_bytes} bytes is incomplete after {taken:.0f} s"
        return None

    def end(self) -> None:
        """The connection has ended, and its socket is about to be closed."""
        if self._forget is not None:
            self._forget()
        self._look = None  # the descriptor may soon be another's
        self.close()

    def close(self) -> None:
        """Give the buffer up."""
        if self.buffer is not None:
            self.buffer.release()
            self.buffer = None
        self._position = self._filled = 0

    def _leave(self, now: float, *, begun: bool) -> None:
        """After handling: give the buffer up when nothing unread is in it, or note what the rest is part of."""
        buffer = self.buffer
        if buffer is None:
            buffer = self.buffer = self._pool.adopt()
        rest = self._filled - self._position
        if not rest:
            self._frame_bytes = 4
            self.close()
            return
        if begun:
            self.frame_since = now
            self._fresh = False
        self._frame_bytes = read_length(buffer.view, self._position)[0] + 4 if rest >= 4 else 4
        if self._frame_bytes > self._preferred_bytes:
            self._preferred_bytes = min(self._frame_bytes, EAGER_BYTES + BASE_BYTES)

    def _goal_bytes(self) -> int:
        """The room that the unfinished frame should have now."""
        return min(self._frame_bytes, max(EAGER_BYTES, 2 * (self._filled - self._position)))

    def _relocate(self, buffer: ReceiveBuffer) -> ReceiveBuffer:
        """Move the beginning of an unfinished frame to where the frame has room: the front, or a larger buffer."""
        rest = self._filled - self._position
        goal = max(self._goal_bytes(), rest + 1)
        unread = buffer.view[self._position : self._filled]
        if goal <= buffer.capacity and buffer.users == 1:
            buffer.view[:rest] = unread
        else:
            old, buffer = buffer, self._pool.replace(buffer, max(goal, self._preferred_bytes))
            buffer.view[:rest] = unread
            self.buffer = buffer
            old.release()
        self._position = 0
        self._filled = rest
        return buffer
