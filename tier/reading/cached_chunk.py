"""A chunk of the archive on the local disk, and the sparse index by which batches are found in it. Pure."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from msgspec import Struct

from stratalog.tier.messages.commands import FilledChunk

__all__ = ["CachedChunk", "ChunkFile"]


class ChunkFile(NamedTuple):
    """Where a chunk lies. The file is not the cache's to remove if it is ``shared``."""

    path: str
    shared: bool = False

    @property
    def disk_share(self) -> int:
        """1 for a file that takes room on the cache's disk, else 0."""
        return 0 if self.shared else 1


class CachedChunk(Struct):
    """A chunk on disk with its sparse index: base offsets, and positions from the start of the chunk.

    It begins at byte ``start`` of its file, which is not the cache's to remove if it is ``shared``.
    """

    path: str
    length: int
    next_offset: int
    offsets: array[int]
    positions: array[int]
    start: int = 0
    shared: bool = False

    @classmethod
    def of(cls, filled: FilledChunk) -> CachedChunk:
        """The chunk as the worker reports it."""
        offsets, positions = _native("q", filled.offsets), _native("i", filled.positions)
        return cls(filled.path, filled.length, filled.next_offset, offsets, positions, filled.start, filled.shared)

    def begins_at(self, offset: int) -> bool:
        """Whether the index knows a batch that begins with ``offset``: then `position_before` is its position."""
        index = bisect_left(self.offsets, offset)
        return index < len(self.offsets) and self.offsets[index] == offset

    def position_before(self, offset: int) -> int:
        """A batch border at or before the batch that holds ``offset``: scan from there."""
        return self.positions[max(0, bisect_right(self.offsets, offset) - 1)]


def _native(code: str, data: bytes) -> array[int]:
    values: array[int] = array(code)
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
