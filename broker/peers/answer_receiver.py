"""Finds the answers in what a connection receives. Large ones lie in memory of their own, and are read in place.

Frames that fit into the common buffer are copied once, to `bytes` of their own size: what is decoded may refer to them
for as long as it likes. A larger frame gets memory of its size when its length is known; all of it but what came with
the length is received right there. From `LAZY_BYTES` on it is memory that the kernel gives page by page, so a length
that is declared and never sent costs none.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Final

from stratalog.wire.frame import FrameError, read_length
from stratalog.wire.schema import Buffer

__all__ = ["BASE_BYTES", "LAZY_BYTES", "AnswerReceiver"]

BASE_BYTES: Final = 64 << 10
"""The common buffer of a connection."""

LAZY_BYTES: Final = 1 << 20

_LENGTH_BYTES: Final = 4
_HEADER_BYTES_MIN: Final = 4
"""The smallest answer: a correlation id."""


class AnswerReceiver:
    """The receiving half of a connection to another node."""

    __slots__ = ("_base", "_bytes_max", "_filled", "_large", "_large_filled")

    def __init__(self, bytes_max: int) -> None:
        """``bytes_max`` bounds one answer."""
        self._bytes_max = bytes_max
        self._base = memoryview(bytearray(BASE_BYTES))
        self._filled = 0
        self._large: memoryview | None = None
        """The frame that is being received, if it is larger than the common buffer."""
        self._large_filled = 0

    def writable(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._large is not None:
            return self._large[self._large_filled :]
        return self._base[self._filled :]

    def received(self, count: int) -> Iterator[Buffer]:
        """The frames that are complete now that ``count`` more bytes are there, each from its correlation id on.

        The caller keeps them for as long as it likes. To be used up before `writable` is asked again. Raises
        `FrameError` for a length that no answer can have; the connection cannot be read any further then.
        """
        large = self._large
        if large is not None:
            self._large_filled += count
            if self._large_filled == len(large):
                self._large = None
                yield large
            return
        self._filled += count
        position = 0
        while self._filled - position >= _LENGTH_BYTES:
            (length,) = read_length(self._base, position)
            self._check(length)
            begin = position + _LENGTH_BYTES
            if begin + length > self._filled:
                break
            position = begin + length
            yield bytes(self._base[begin:position])
        self._keep(position)

    def _check(self, length: int) -> None:
        if not _HEADER_BYTES_MIN <= length <= self._bytes_max:
            raise FrameError(f"it declares an answer of {length} bytes; the bound is {self._bytes_max}")

    def _keep(self, position: int) -> None:
        """Keep what has come of an unfinished frame, where the rest of it can follow."""
        rest = self._filled - position
        if rest >= _LENGTH_BYTES:
            (length,) = read_length(self._base, position)
            if length + _LENGTH_BYTES > BASE_BYTES:
                self._large = _memory(length)
                self._large_filled = rest - _LENGTH_BYTES
                self._large[: self._large_filled] = self._base[position + _LENGTH_BYTES : self._filled]
                self._filled = 0
                return
        if position and rest:
            self._base[:rest] = bytes(self._base[position : self._filled])
        self._filled = rest


def _memory(size_bytes: int) -> memoryview:
    if size_bytes < LAZY_BYTES:
        return memoryview(bytearray(size_bytes))
    return memoryview(mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
