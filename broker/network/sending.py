"""Getting response parts onto a socket: bytes by ``send``, file slices by ``sendfile``, TLS by read and write.

A sender owns everything that goes out on its connection, in order. ``loop.sendfile`` is five times slower at
4 KiB and its header would need a write of its own, so the plain-text sender works on a duplicate of the
transport's socket, which both asyncio and uvloop let it watch.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

from stratalog.broker.network.page_cache import PageCache
from stratalog.broker.network.send_turns import LARGE_BYTES, SendTurns
from stratalog.broker.runtime.metrics import NetworkMetrics
from stratalog.wire.errors import Corrupt
from stratalog.wire.parts import FileSlice, Part

__all__ = ["PlainSender", "Sender", "SenderOwner", "TransportSender"]

SENDFILE_BYTES = 1 << 20
"""Most bytes of one ``sendfile``, and so of one look into the page cache."""

COPY_BELOW_BYTES = 2048
"""File slices smaller than this are read and joined with their neighbours: two system calls fewer."""

_JOIN_BYTES = 32 << 10
_JOIN_ALL_BYTES = 1 << 20
"""An answer of many parts of memory above this is sent from where they lie: joining 60 MiB would hold the loop 70 ms."""
_BUFFERS_MAX = 64
_TLS_READ_BYTES = 128 << 10
_MORE = socket.MSG_MORE


class SenderOwner(Protocol):
    """A sender's callbacks to its connection. ``patient``: what it sends
    was read from the archive and may wait longest.
    """

    patient: bool

    def send_drained(self) -> None:
        """Everything that was queued has been handed to the kernel (or to TLS)."""
        ...

    def send_failed(self, error: Exception) -> None:
        """Sending has failed for good; the connection has to go."""
        ...


class Sender:
    """The queue of parts, and reading ahead of the slices that are not in the page cache."""

    __slots__ = (
        "_busy_at",
        "_has_sent",
        "_loop",
        "_metrics",
        "_owner",
        "_page_cache",
        "_queue",
        "_warm",
        "_warming",
        "closed",
        "queued_bytes",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, owner: SenderOwner, page_cache: PageCache, metrics: NetworkMetrics
    ) -> None:
        self._loop = loop
        self._owner = owner
        self._page_cache = page_cache
        self._metrics = metrics
        self._queue: deque[Part] = deque()
        self._warm: FileSlice | None = None
        self._warming = False
        self._has_sent = False
        self._busy_at = 0.0
        self.closed = False
        self.queued_bytes = 0

    def send(self, parts: list[Part]) -> None:
        """Send ``parts`` after everything sent before; what the socket does not take now stays queued."""
        if not self.closed:
            self._enqueue(parts)
            self.pump()

    def _enqueue(self, parts: list[Part]) -> None:
        for part in parts:
            size = part.length if isinstance(part, FileSlice) else len(part)
            if size:
                self._queue.append(part)
                self.queued_bytes += size

    def busy_at(self, now: float, *, waits: bool) -> float:
        """When the sender was last busy, in seconds: ``now`` if queued bytes have left since the last call.

        Or if an answer ``waits`` to become known: the client may take its time after it, too.
        """
        if self._has_sent or waits:
            self._has_sent, self._busy_at = False, now
        return self._busy_at

    def pump(self) -> None:
        """Send what is queued, as far as the socket takes it."""
        raise NotImplementedError

    def close(self) -> None:
        """Drop what is queued."""
        self.closed = True
        self._queue.clear()
        self.queued_bytes = 0

    def _advance(self, count: int) -> None:
        """Drop ``count`` bytes from the front of the queue; a slice is cut, never changed, for others may hold it."""
        self.queued_bytes -= count
        self._has_sent = True
        self._metrics.bytes_sent += count
        queue = self._queue
        while count:
            part = queue[0]
            size = part.length if isinstance(part, FileSlice) else len(part)
            if count >= size:
                queue.popleft()
                count -= size
            elif isinstance(part, FileSlice):
                queue[0] = FileSlice(part.file, part.position + count, size - count)
                return
            else:
                queue[0] = memoryview(part)[count:]
                return

    def _resident(self, part: FileSlice, length: int) -> bool:
        """Whether the first ``length`` bytes of the slice may be sent now; if not, a thread reads them."""
        if self._warm is part:
            # Just read ahead. Send without asking again: under memory pressure the answer could be no for ever.
            return True
        if self._page_cache.resident(part.file.fileno(), part.position, length):
            return True
        self._warming = True
        self._warm = part
        self._metrics.cold_reads += 1
        self._page_cache.read_ahead(part.file, part.position, min(part.length, SENDFILE_BYTES), self._warmed)
        return False

    def _warmed(self, error: OSError | None) -> None:
        self._warming = False
        if self.closed:
            return
        if error is not None:
            self._fail(error)
            return
        self.pump()

    def _read(self, part: FileSlice, length: int) -> bytes:
        data = os.pread(part.file.fileno(), length, part.position)
        if not data:
            raise _shorter(part)
        self._metrics.copied_file_bytes += len(data)
        return data

    def _fail(self, error: Exception) -> None:
        self.close()
        self._owner.send_failed(error)


class PlainSender(Sender):
    """Sends on a duplicate of the transport's socket; nothing ever goes through the transport itself."""

    __slots__ = ("_socket", "_turns", "_waiting", "_writing", "receive_into")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        owner: SenderOwner,
        page_cache: PageCache,
        metrics: NetworkMetrics,
        descriptor: int,
        turns: SendTurns,
    ) -> None:
        """``descriptor`` is the transport's; it is duplicated at once. ``turns`` are those of the loop."""
        super().__init__(loop, owner, page_cache, metrics)
        self._turns = turns
        self._waiting = False
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._socket.setblocking(False)
        self.receive_into: Callable[[memoryview], int] = self._socket.recv_into
        """Receives on the duplicate. Raises OSError."""
        self._writing = False

    def send(self, parts: list[Part]) -> None:
        """Send ``parts``; the usual case, a few small answers and an empty queue, is one ``send``."""
        if self.closed:
            return
        small = len(parts) == 1 and type(parts[0]) is bytes
        if self._queue or not (small or self._in_memory(parts)):
            self._enqueue(parts)
            self._turns.small_count += self.queued_bytes < LARGE_BYTES
            self.pump()
            return
        data: Part = parts[0] if small else b"".join(parts)  # type: ignore[arg-type]
        try:
            count = self._socket.send(data)  # type: ignore[arg-type]
        except BlockingIOError:
            count = 0
        except OSError as error:
            self._fail(error)
            return
        self._turns.small_count += 1
        self._metrics.bytes_sent += count
        if count != len(data):
            self._queue.append(memoryview(data)[count:])  # type: ignore[arg-type]
            self.queued_bytes = len(data) - count
            self._wait_writable()

    def _in_memory(self, parts: list[Part]) -> bool:
        """Whether all parts are bytes, or can become bytes at once: a few small slices of what is cached do."""
        room = _JOIN_BYTES
        in_memory_bytes = 0
        for index, part in enumerate(parts):
            if type(part) is not FileSlice:
                in_memory_bytes += len(part)
                if in_memory_bytes > _JOIN_ALL_BYTES:
                    return False
            else:
                length = part.length
                room -= length
                if length >= COPY_BELOW_BYTES or room < 0:
                    return False
                try:
                    data = self._page_cache.read_resident(part.file.fileno(), part.position, length)
                except (OSError, ValueError):
                    return False  # met again, and reported, when its turn comes
                if data is None:
                    return False
                self._metrics.copied_file_bytes += length
                parts[index] = data
        return True

    def close(self) -> None:
        """Drop what is queued and close the duplicate."""
        if self.closed:
            return
        super().close()
        if self._writing:
            self._loop.remove_writer(self._socket.fileno())
            self._writing = False
        self._socket.close()

    def pump(self) -> None:
        """Send until the queue is empty, the socket is full, a slice is cold or the turn is over."""
        if self._waiting or self._warming or self.closed or not self._queue:
            return
        size_bytes = LARGE_BYTES if self.queued_bytes < LARGE_BYTES else self._turns.at_once()
        if size_bytes:
            self.take_turn(size_bytes)
        else:
            self._wait_for_turn()

    def take_turn(self, size_bytes: int) -> None:
        """Send at most so much, and somewhat more if that is in the same system call."""
        self._waiting = False
        if self._warming or self.closed or not self._queue:
            return
        try:
            self._pump(size_bytes)
        except BlockingIOError:
            # Bytes that were cached before the wait need not be afterwards.
            self._warm = None
            self._wait_writable()
        except (OSError, ValueError, Corrupt) as error:
            self._fail(error)

    def _pump(self, size_bytes: int) -> None:
        queue = self._queue
        turn_end = self.queued_bytes - size_bytes
        while queue:
            part = queue[0]
            if type(part) is FileSlice and part.length >= COPY_BELOW_BYTES:
                length = min(part.length, SENDFILE_BYTES, self.queued_bytes - turn_end)
                if not self._resident(part, length):
                    self._stop_writing()
                    return
                count = os.sendfile(self._socket.fileno(), part.file.fileno(), part.position, length)
                if count == 0:
                    raise _shorter(part)
                self._metrics.sendfile_bytes += count
                self._advance(count)
                self._warm = None
            elif not self._send_run():
                return
            if self.queued_bytes <= turn_end and queue:
                self._wait_for_turn()
                return
        self._stop_writing()
        self._owner.send_drained()

    def _send_run(self) -> bool:
        """Send the buffers in front of the next large file slice with one call; False if a small slice is cold."""
        buffers: list[Part] = []
        size = 0
        more = 0
        for index, part in enumerate(self._queue):
            if type(part) is FileSlice:
                if part.length >= COPY_BELOW_BYTES:
                    more = _MORE
                    break
                if not self._resident(part, part.length):
                    self._stop_writing()
                    return False
                part = self._copied(index, part)
            buffers.append(part)
            size += len(part)
            if len(buffers) == _BUFFERS_MAX:
                break
        if size <= _JOIN_BYTES and len(buffers) > 1:
            count = self._socket.send(b"".join(buffers), more)  # type: ignore[arg-type]
        else:
            count = self._socket.sendmsg(buffers, (), more)  # type: ignore[arg-type]
        self._advance(count)
        return True

    def _copied(self, index: int, part: FileSlice) -> bytes:
        """The small slice at ``index`` as bytes, which replace it in the queue."""
        data = self._read(part, part.length)
        if len(data) != part.length:
            raise _shorter(part)
        self._queue[index] = data
        return data

    def _wait_for_turn(self) -> None:
        self._waiting = True
        self._stop_writing()
        self._turns.wait(self, patient=self._owner.patient)

    def _wait_writable(self) -> None:
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._socket.fileno(), self.pump)

    def _stop_writing(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._socket.fileno())


class TransportSender(Sender):
    """Sends through the transport, which encrypts: file slices are read and written."""

    __slots__ = ("_paused", "_transport")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        owner: SenderOwner,
        page_cache: PageCache,
        metrics: NetworkMetrics,
        transport: asyncio.WriteTransport,
    ) -> None:
        super().__init__(loop, owner, page_cache, metrics)
        self._transport = transport
        self._paused = False

    def pause(self) -> None:
        """The transport's buffer is full."""
        self._paused = True

    def resume(self) -> None:
        """The transport's buffer has room again."""
        self._paused = False
        self._warm = None
        self.pump()

    def pump(self) -> None:
        """Write until the queue is empty, the transport is full or a slice is cold."""
        if self._warming or self.closed:
            return
        try:
            while self._queue and not self._paused:
                part = self._queue[0]
                if isinstance(part, FileSlice):
                    length = min(part.length, _TLS_READ_BYTES)
                    if not self._resident(part, length):
                        return
                    data = self._read(part, length)
                    self._warm = None
                    self._transport.write(data)
                    self._advance(len(data))
                else:
                    self._transport.write(part)
                    self._advance(len(part))
        except (OSError, ValueError, Corrupt) as error:
            self._fail(error)
            return
        if not self._queue:
            self._owner.send_drained()


def _shorter(part: FileSlice) -> Corrupt:
    return Corrupt(f"{part!r} ends before its length: the file was shortened while it was being sent")
