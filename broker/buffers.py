"""Memory for what connections receive: pooled, leased to whoever keeps slices, and counted against one budget.

A connection holds a buffer only while bytes of an unfinished frame are in it, so thousands of idle connections
cost nothing and a busy broker keeps reusing a few warm buffers. Whoever queues slices of a buffer (an append)
takes a *lease*; the buffer is used again only after the last lease is gone (CVE-2026-35554 is what happens
otherwise).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["BASE_BYTES", "COPIED_BYTES_MAX", "BufferPool", "ReceiveBuffer"]

BASE_BYTES = 64 << 10
"""Capacity of an ordinary buffer, and the granularity of larger ones."""

COPIED_BYTES_MAX = 8 << 10
"""Smaller slices are copied rather than leased: cheaper than to leave the common buffer and read on into another."""

_RETAINED_BYTES_MAX = 16 << 20
"""Free memory the pool keeps for later."""


class ReceiveBuffer:
    """Writable memory with a count of its users; the connection that reads into it is one of them."""

    __slots__ = ("_pool", "capacity", "charge_bytes", "users", "view")

    def __init__(self, pool: BufferPool, capacity: int) -> None:
        self._pool = pool
        self.view = memoryview(bytearray(capacity))
        self.capacity = capacity
        self.charge_bytes = capacity
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
    """Free buffers and the budget of bytes that all connections together may hold (``queued.max.request.bytes``).

    A buffer is charged with its capacity, or with the size of the frame it is the beginning of, so that a frame
    once begun can always be finished. Ordinary buffers are always handed out; who finds the budget overdrawn
    afterwards stops reading.

    ``common`` is an ordinary buffer that every connection without unread bytes reads into; it is free again as soon
    as the frames in it have been handled. A connection with more to keep takes it for itself (:meth:`adopt`).
    """

    __slots__ = ("_base", "_large", "_retained_bytes", "_waiting", "budget_bytes", "common", "used_bytes")

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._base: list[ReceiveBuffer] = []
        self._large: list[ReceiveBuffer] = []
        self._retained_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self.used_bytes = 0
        self.common = ReceiveBuffer(self, BASE_BYTES)

    @property
    def overdrawn(self) -> bool:
        """Whether more is in use than the budget allows."""
        return self.used_bytes > self.budget_bytes

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
            capacity = -(-capacity // BASE_BYTES) * BASE_BYTES
            buffer = self._take_large(capacity)
        if buffer is None:
            buffer = ReceiveBuffer(self, capacity)
        else:
            self._retained_bytes -= buffer.capacity
            buffer.users = 1
        self.used_bytes += buffer.capacity
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
        self.used_bytes -= buffer.charge_bytes
        capacity = buffer.charge_bytes = buffer.capacity
        if self._retained_bytes + capacity <= _RETAINED_BYTES_MAX:
            self._retained_bytes += capacity
            (self._base if capacity == BASE_BYTES else self._large).append(buffer)
        if self._waiting:
            self._wake()

    def charge(self, buffer: ReceiveBuffer, frame_bytes: int) -> bool:
        """Reserve memory for a whole frame of which ``buffer`` holds the beginning; False if it must wait."""
        extra = frame_bytes - buffer.charge_bytes
        if extra <= 0:
            return True
        # A frame larger than what is left of the budget passes when nobody else holds anything.
        others = self.used_bytes - buffer.charge_bytes
        if others and (self._waiting or self.used_bytes + extra > self.budget_bytes):
            return False
        self.used_bytes += extra
        buffer.charge_bytes = frame_bytes
        return True

    def replace(self, old: ReceiveBuffer, capacity: int) -> ReceiveBuffer:
        """A larger buffer that takes over the reservation of ``old``; the caller copies, then releases ``old``."""
        new = self.take(capacity)
        if old.charge_bytes > new.charge_bytes:
            self.used_bytes += old.charge_bytes - new.charge_bytes
            new.charge_bytes = old.charge_bytes
        self.used_bytes -= old.charge_bytes - old.capacity
        old.charge_bytes = old.capacity
        return new

    def wait(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once when memory may be available again; first come, first served."""
        self._waiting.append(resume)

    def forget(self, resume: Callable[[], None]) -> None:
        """Withdraw a call of :meth:`wait`, if it has not been answered."""
        if resume in self._waiting:
            self._waiting.remove(resume)

    def trim(self) -> None:
        """Free every buffer that nobody uses."""
        self._base.clear()
        self._large.clear()
        self._retained_bytes = 0

    def _wake(self) -> None:
        """Let those who wait try again; one who still does not fit asks to wait anew."""
        if self.overdrawn:
            return
        waiting, self._waiting = self._waiting, deque()
        for resume in waiting:
            resume()
