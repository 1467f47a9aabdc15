"""The sparse index of a chunk: where some of its batches begin. Built from pieces, cut anywhere. Pure."""

from __future__ import annotations

import sys
from array import array
from struct import Struct
from typing import Final

from stratalog.wire.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, read_header
from stratalog.wire.errors import Corrupt

__all__ = ["SparseIndex"]

_BATCH: Final = Struct(">qi").unpack_from
"""Base offset and length of the batch at a position."""


class SparseIndex:
    """Goes from batch to batch. It looks at two fields of each: a GiB of small batches has a hundred thousand.

    The first batch is always in the index, then one as soon as ``interval_bytes`` have passed. ``position`` is that of
    the batch that was looked at last.
    """

    __slots__ = ("_due", "_head", "_interval_bytes", "_last", "_next", "_offsets", "_positions", "_seen", "position")

    def __init__(self, interval_bytes: int) -> None:
        self._interval_bytes = interval_bytes
        self._offsets, self._positions = array("q"), array("i")
        self._due = self._next = self._seen = self.position = 0
        self._head = b""
        """The bytes so far of a header that the pieces cut."""
        self._last = b""

    def feed(self, data: memoryview) -> None:
        """Take the next bytes of the chunk."""
        begin = self._seen
        self._seen += len(data)
        if self._head:
            before = len(self._head)
            self._head += data[: HEADER_BYTES - before]
            if len(self._head) < HEADER_BYTES:
                return
            head, self._head = memoryview(self._head), b""
            if not self._walk(head, begin - before):
                return
        self._walk(data, begin)

    def _walk(self, data: memoryview, begin: int) -> bool:
        """Look at the batches whose headers begin in ``data``; whether there may be more behind it."""
        size_bytes = len(data)
        at, last = self._next - begin, -1
        while at + HEADER_BYTES <= size_bytes:
            base_offset, length = _BATCH(data, at)
            if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
                self._next = sys.maxsize  # no batch has such a length: `finish` says so
                self.position = begin + at
                return False
            if begin + at >= self._due:
                self._offsets.append(base_offset)
                self._positions.append(begin + at)
                self._due = begin + at + self._interval_bytes
            last, at = at, at + LOG_OVERHEAD_BYTES + length
        if last >= 0:
            self.position = begin + last
            self._last = bytes(data[last : last + HEADER_BYTES])
        self._next = begin + at
        if 0 <= at < size_bytes:
            self._head = bytes(data[at:])
        return True

    def finish(self, first_offset: int) -> tuple[bytes, bytes, int]:
        """``(offsets, positions, next offset)``, both columns little-endian; ``first_offset`` is next of an empty chunk.

        Raises `Corrupt` unless the last batch ends where the bytes do.
        """
        if self._next != self._seen:
            raise Corrupt("the chunk does not end on a batch border")
        next_offset = read_header(self._last).next_offset if self._last else first_offset
        return _little_endian(self._offsets), _little_endian(self._positions), next_offset


def _little_endian(values: array[int]) -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()
