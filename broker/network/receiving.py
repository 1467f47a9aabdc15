"""Finding the frames in what a connection receives, where they lie: no copy, no object per byte range but the view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

from stratalog.broker.network.buffers import BASE_BYTES, BufferPool, ReceiveBuffer, rounded
from stratalog.broker.network.hang_ups import HangUps, unread_in_kernel
from stratalog.broker.network.receive_memory import LargeFrame
from stratalog.broker.network.stall_reasons import SLICED
from stratalog.broker.runtime.event_loop import ready_sockets_of
from stratalog.wire.frame import HEADER_BYTES_MIN, check_frame_length, read_length

if TYPE_CHECKING:
    from stratalog.broker.network.connection import Connection

__all__ = ["EAGER_BYTES", "Dispatch", "FrameReceiver", "Shortcut"]

EAGER_BYTES = 1 << 20
"""Frames up to this size get their whole buffer at once; larger ones grow it as their bytes arrive."""

READ_BYTES_MIN = 128 << 10
ROUND_BYTES = 32 << 20
"""Bytes read in one round of the event loop: sockets that are ready together share it, but for the least of each."""

SLOW_FRAME_SECONDS = 30.0
SLOW_FRAME_BYTES_PER_SECOND = 16 << 10
"""A frame must be complete after this time plus its size at this rate."""


class Dispatch(Protocol):
    """The handler of one request."""

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
        "_goal_bytes",
        "_host",
        "_look",
        "_monotonic",
        "_pool",
        "_position",
        "_preferred_bytes",
        "_resume",
        "buffer",
        "frame_since",
        "large",
    )

    def __init__(self, pool: BufferPool, monotonic: Callable[[], float], resume: Callable[[], None]) -> None:
        """``resume`` is called when memory is there that `may_go_on` did not find."""
        self._pool = pool
        self._monotonic = monotonic
        self._resume = resume
        self._host = ""
        self.buffer: ReceiveBuffer | None = None
        self.large: LargeFrame | None = None
        """The unfinished frame, if it has or wants more than an ordinary buffer."""
        self._position = 0
        self._filled = 0
        self._frame_bytes = self._goal_bytes = 4
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
        """Receive without the transport where the loop allows it: the connection hears of bytes as by the transport.

        The transport takes over at the end of the stream and after an error of the socket.
        """
        sockets = ready_sockets_of(loop)
        if sockets is None:
            return

        descriptor = transport.get_extra_info("socket").fileno()

        def ready() -> bool:
            room = self.writable()
            if len(room) > READ_BYTES_MIN:
                room = room[: max(ROUND_BYTES // (sockets.ready_count or 1), READ_BYTES_MIN)]
            try:
                count = receive_into(room)
            except BlockingIOError:
                self._give_up_empty()
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
            if self._preferred_bytes == BASE_BYTES or not self._pool.memory.plenty(self._host):
                return self._pool.common.view
            buffer = self._pool.take(self._preferred_bytes)
            self._hold(buffer)
            return buffer.view
        if self._filled == buffer.capacity or self._position + self._goal_bytes > buffer.capacity:
            buffer = self._relocate(buffer)
        return buffer.view[self._filled :]

    def received(self, count: int) -> None:
        """``count`` more bytes are there, to be handled later."""
        self._filled += count
        if self.buffer is None:
            self._hold(self._pool.adopt())

    def handle(
        self, count: int, connection: Connection, dispatch: Dispatch, frames_max: int, turn_end: float = inf
    ) -> bool:
        """``count`` more bytes are there: handle the complete frames until one stalls the connection.

        A frame goes to the connection's shortcut, if it has one and that takes it, and to ``dispatch`` otherwise.
        Frames for a shortcut are cheap, and not timed: ``frames_max`` bounds them. True if ``frames_max`` or the time
        ``turn_end`` (monotonic seconds) ended it before. Raises :class:`FrameError` for a length that no request can
        have.
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
            left -= 1
            if shortcut is None or not shortcut.handle(connection, frame):
                dispatch(connection, frame)
                if self._monotonic() > turn_end:
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

    def from_host(self, host: str) -> None:
        """The address at the other end: what its large frames hold together has a limit."""
        self._host = host

    def may_go_on(self) -> bool:
        """Whether to read on: memory for more of the frame that has begun is granted, or a frame may begin.

        If not, the connection is resumed when it is.
        """
        buffer = self.buffer
        memory = self._pool.memory
        if buffer is None or (buffer.users > 1 and not memory.accepts):
            if memory.accepts:
                return True
            self._pool.wait(self._resume, self._monotonic())
            return False
        self._goal_bytes = goal = self._goal(buffer)
        if goal <= BASE_BYTES or (buffer.users == 1 and goal <= buffer.capacity):
            return True
        if self._position + goal <= buffer.capacity:
            return True
        if self.large is None:
            self.large = memory.begin(self._host, buffer.capacity, self.frame_since, self._resume)
        return memory.ask(self.large, rounded(goal))

    def too_slow(self, now: float, *, stalled: bool = False) -> str | None:
        """The message for a client whose frame should have been complete by now.

        While the connection is ``stalled`` the broker does not read: then the frame is late only if memory is short.
        """
        self._preferred_bytes = BASE_BYTES  # called now and then: large buffers are for present traffic
        received = self._filled - self._position
        if received <= 0:
            self._give_up_empty()
            return None
        if self.large is not None:
            late = self._pool.memory.too_late(self.large, received, now)
            if late is not None:
                return late
        taken = now - self.frame_since
        if not stalled and taken > SLOW_FRAME_SECONDS + received / SLOW_FRAME_BYTES_PER_SECOND:
            return f"a frame of {self._frame_bytes} bytes is incomplete after {taken:.0f} s"
        return None

    def watch_end(self, hang_ups: HangUps, descriptor: int, connection: Connection) -> None:
        """The socket is not read: end the connection if the client goes meanwhile. A ``descriptor`` below 0 is none.

        Complete frames that the client has sent are still handled, unless work for it is under way: that ends with its
        client.
        """

        def hung_up() -> None:
            lacks_frame = self.unread_bytes + unread_in_kernel(descriptor) < self._frame_bytes
            if lacks_frame or connection.stalled & SLICED:
                connection.abort()

        if descriptor >= 0 and not connection.closed:
            hang_ups.watch(descriptor, hung_up)

    def end(self) -> None:
        """The connection has ended, and its socket is about to be closed."""
        if self._forget is not None:
            self._forget()
        self._look = None  # the descriptor may soon be another's
        self.close()

    def close(self) -> None:
        """Give the buffer up, and withdraw what was asked for."""
        self._pool.forget(self._resume)
        self._drop()
        self._position = self._filled = 0

    def _hold(self, buffer: ReceiveBuffer) -> None:
        """From now on the buffer holds the beginning of a frame."""
        self.buffer = buffer
        memory = self._pool.memory
        memory.unfinished_bytes += buffer.capacity
        if self.large is None and buffer.capacity > BASE_BYTES:
            self.large = memory.begin(self._host, buffer.capacity, self._monotonic(), self._resume)

    def _drop(self) -> None:
        """The buffer holds no beginning of a frame any more; leases of what lies before it stay."""
        buffer = self.buffer
        if buffer is None:
            return
        self.buffer = None
        memory = self._pool.memory
        memory.unfinished_bytes -= buffer.capacity
        if self.large is not None:
            memory.end(self.large)
            self.large = None
            if memory.waits and buffer.users > 1:
                self._pool.wake()
        buffer.release()

    def _give_up_empty(self) -> None:
        """No bytes came after all: do not keep a buffer for them."""
        if self.buffer is not None and self._filled == self._position:
            self.close()

    def _leave(self, now: float, *, begun: bool) -> None:
        """After handling: give the buffer up when nothing unread is in it, or note what the rest is part of."""
        rest = self._filled - self._position
        if self.buffer is None:
            self._hold(self._pool.adopt())
        buffer = self.buffer
        assert buffer is not None
        if not rest:
            self._frame_bytes = 4
            self._drop()
            self._position = self._filled = 0
            return
        if begun:
            self.frame_since = now
            self._fresh = False
            if self.large is not None:
                if self._pool.memory.is_beyond_budget(self.large):
                    buffer = self._begin_within_budget(buffer)
                else:
                    self.large.begin_at(now)
        self._frame_bytes = read_length(buffer.view, self._position)[0] + 4 if rest >= 4 else 4
        if self._frame_bytes > self._preferred_bytes:
            self._preferred_bytes = min(self._frame_bytes, EAGER_BYTES + BASE_BYTES)

    def _goal(self, buffer: ReceiveBuffer) -> int:
        """The room that the unfinished frame should have now: all it needs if it is small or memory is there.

        A larger frame gets twice its room when that is full, not before: its bytes are copied each time.
        """
        room = buffer.capacity - self._position
        if self._filled == buffer.capacity:
            room = max(BASE_BYTES, 2 * (self._filled - self._position))
        if self._pool.memory.plenty(self._host):
            room = max(room, EAGER_BYTES)
        return min(self._frame_bytes, room)

    def _relocate(self, buffer: ReceiveBuffer) -> ReceiveBuffer:
        """Move the beginning of an unfinished frame to where the frame has room: the front, or another buffer."""
        rest = self._filled - self._position
        goal = max(self._goal_bytes, rest + 1)
        unread = buffer.view[self._position : self._filled]
        if goal <= buffer.capacity and buffer.users == 1:
            buffer.view[:rest] = unread
        else:
            if goal > BASE_BYTES and self._preferred_bytes > goal and self._pool.memory.plenty(self._host):
                goal = self._preferred_bytes
            new = self._pool.take(goal)
            new.view[:rest] = unread
            self._replace(buffer, new)
            buffer = new
        self._position = 0
        self._filled = rest
        return buffer

    def _begin_within_budget(self, buffer: ReceiveBuffer) -> ReceiveBuffer:
        """Move the beginning of a frame to a buffer of its own: only the frame before it could go on beyond the budget."""
        assert self.large is not None
        rest = self._filled - self._position
        new = self._pool.take(rest)
        new.view[:rest] = buffer.view[self._position : self._filled]
        self._pool.memory.end(self.large)
        self.large = None
        self._position, self._filled = 0, rest
        is_leased = buffer.users > 1
        self._replace(buffer, new)
        if is_leased and self._pool.memory.waits:  # otherwise the pool has woken them when it got the buffer
            self._pool.wake()
        return new

    def _replace(self, old: ReceiveBuffer, new: ReceiveBuffer) -> None:
        """The beginning of the frame lies in ``new``; what it was granted goes with it."""
        memory = self._pool.memory
        memory.unfinished_bytes += new.capacity - old.capacity
        self.buffer = new
        large = self.large
        if large is None:
            if new.capacity > BASE_BYTES:
                self.large = memory.begin(self._host, new.capacity, self.frame_since, self._resume)
        elif new.capacity <= BASE_BYTES:
            memory.end(large)
            self.large = None
        else:
            memory.settle(large, new.capacity)
        old.release()
