"""Memory for received bytes: pooled, leased to holders of slices, and counted against one budget.

A connection holds a buffer only while bytes of an unfinished frame are in it, so thousands of idle connections
cost nothing and a busy broker keeps reusing a few warm buffers. Code that queues slices of a buffer (an append) takes a
*lease*; the buffer is used again only after the last lease is gone (CVE-2026-35554 is what happens otherwise).
"""

from __future__ import annotations

import mmap
from collections.abc import Callable

from stratalog.broker.network.receive_memory import ReceiveMemory

__all__ = ["BASE_BYTES", "COPIED_BYTES_MAX", "BufferPool", "ReceiveBuffer", "rounded"]

BASE_BYTES = 64 << 10
"""Capacity of an ordinary buffer, and the granularity of larger ones."""

COPIED_BYTES_MAX = 8 << 10
"""Smaller slices are copied rather than leased: cheaper than to leave the common buffer and read on into another."""

_MAPPED_BYTES_MIN = 4 << 20
"""Buffers from this size on are mapped."""

_RETAINED_BYTES_MAX = 16 << 20
"""Free memory the pool keeps for later."""


class ReceiveBuffer:
    """Writable memory with a count of its users; the connection that reads into it is one of them."""

    __slots__ = ("_pool", "capacity", "users", "view")

    def __init__(self, pool: BufferPool, capacity: int) -> None:
        self._pool = pool
        # A page that the kernel maps costs when it is first written; a bytearray is written as a whole when it is made,
        # which for 100 MiB holds the event loop for longer than anything else may.
        self.view = memoryview(mmap.mmap(-1, capacity) if capacity >= _MAPPED_BYTES_MIN else bytearray(capacity))
        self.capacity = capacity
        self.users = 1

    def lease(self) -> Callable[[], None]:
        """Keep the bytes unchanged until the returned callable is called, exactly once."""
        self.users += 1
        return self.release

    def release(self) -> None:
        """One user less; the last one gives the buffer back to its pool."""
        self.users -= 1
        if self.users <= 0:
            if self.users < 0:
                raise RuntimeError("a receive buffer was released more often than leased")
            self._pool.give(self)


class BufferPool:
    """Free buffers, and the account of those in use (``memory``, bounded by ``queued.max.request.bytes``).

    ``common`` is an ordinary buffer that every connection without unread bytes reads into; it is free again as soon
    as the frames in it have been handled. A connection with more to keep takes it for itself (:meth:`adopt`).
    """

    __slots__ = ("_base", "_large", "_retained_bytes", "_waiting", "common", "memory")

    def __init__(self, budget_bytes: int, per_host_bytes: int | None = None) -> None:
        self.memory = ReceiveMemory(budget_bytes, per_host_bytes)
        self._base: list[ReceiveBuffer] = []
        self._large: list[ReceiveBuffer] = []
        self._retained_bytes = 0
        self._waiting: dict[Callable[[], None], float] = {}
        self.common = ReceiveBuffer(self, BASE_BYTES)

    @property
    def used_bytes(self) -> int:
        """Bytes of the buffers in use."""
        return self.memory.used_bytes

    @property
    def retained_bytes(self) -> int:
        """Bytes of free buffers kept for later."""
        return self._retained_bytes

    def take(self, capacity: int = BASE_BYTES) -> ReceiveBuffer:
        """A buffer of at least ``capacity`` bytes with one user."""
        if capacity <= BASE_BYTES:
            buffer = self._base.pop() if self._base else None
            capacity = BASE_BYTES
        else:
            capacity = rounded(capacity)
            buffer = self._take_large(capacity)
        if buffer is None:
            buffer = ReceiveBuffer(self, capacity)
        else:
            self._retained_bytes -= buffer.capacity
            buffer.users = 1
        self.memory.used_bytes += buffer.capacity
        return buffer

    def _take_large(self, capacity: int) -> ReceiveBuffer | None:
        for index, buffer in enumerate(self._large):
            if capacity <= buffer.capacity <= 2 * capacity:
                return self._large.pop(index)
        return None

    def adopt(self) -> ReceiveBuffer:
        """The common buffer with what was just read into it, for the one connection that did; a new one takes over."""
        buffer = self.common
        self.common = self.take()
        return buffer

    def give(self, buffer: ReceiveBuffer) -> None:
        """Take back a buffer without users; called by :meth:`ReceiveBuffer.release`."""
        capacity = buffer.capacity
        self.memory.used_bytes -= capacity
        if self._retained_bytes + capacity <= _RETAINED_BYTES_MAX:
            self._retained_bytes += capacity
            (self._base if capacity == BASE_BYTES else self._large).append(buffer)
        if self._waiting or self.memory.waits:
            self.wake()

    def wait(self, resume: Callable[[], None], now: float) -> None:
        """Call ``resume`` once when frames may begin again; ``now`` is the time in monotonic seconds."""
        self._waiting.setdefault(resume, now)

    def forget(self, resume: Callable[[], None]) -> None:
        """Withdraw a call of :meth:`wait`, if it has not been answered."""
        self._waiting.pop(resume, None)

    def waits_since(self) -> float | None:
        """Since when memory has been waited for without a break, in monotonic seconds; None if it is not."""
        times = [*self._waiting.values()][:1]
        frames_since = self.memory.waits_since()
        if frames_since is not None:
            times.append(frames_since)
        return min(times, default=None)

    @property
    def waiting_count(self) -> int:
        """Connections that wait for memory."""
        return len(self._waiting) + self.memory.waiting_count

    def trim(self) -> None:
        """Free every unused buffer."""
        self._base.clear()
        self._large.clear()
        self._retained_bytes = 0

    def wake(self) -> None:
        """Let those go on for whom there is memory now; one that still has none asks to wait anew."""
        memory = self.memory
        if self._waiting and memory.accepts:
            waiting, self._waiting = self._waiting, {}
            for resume in waiting:
                resume()
        if memory.waits:
            for frame in memory.awake():
                frame.resume()


def rounded(capacity: int) -> int:
    """The capacity that a buffer for ``capacity`` bytes has."""
    return -(-capacity // BASE_BYTES) * BASE_BYTES
