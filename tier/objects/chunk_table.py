"""The chunk table of a ``.seg`` object: CRC grid, coarse index, split plan and cache unit in one.

One row of 32 bytes, big-endian, per chunk of about 4 MiB: first offset ``i64``, position ``u64``, length ``u32``,
CRC-32C ``u32``, largest timestamp ``i64``. Chunks are cut on batch borders and follow each other without a gap.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from stratalog.wire.errors import Corrupt

__all__ = ["CHUNK_BYTES", "ROW_BYTES", "Chunk", "ChunkTable"]

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""A chunk is closed before the batch that would take it beyond this; only a larger batch makes a larger chunk."""
_ROW: Final = Struct(">qQIIq")
ROW_BYTES: Final = _ROW.size


class Chunk(NamedTuple):
    """One chunk. ``position`` counts from the start of the object; ``crc32c`` covers exactly its bytes."""

    first_offset: int
    position: int
    length: int
    crc32c: int
    max_timestamp_ms: int


class ChunkTable:
    """The chunks of one object, packed: 32 bytes each."""

    __slots__ = ("_crcs", "_first_offsets", "_lengths", "_positions", "_timestamps")

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self._first_offsets = array("q")
        self._positions = array("Q")
        self._lengths = array("I")
        self._crcs = array("I")
        self._timestamps = array("q")
        for chunk in chunks:
            self.append(chunk)

    def append(self, chunk: Chunk) -> None:
        """Add the next chunk. Raises `Corrupt` if it does not follow the last one."""
        if len(self) and (chunk.position != self.data_bytes or chunk.first_offset <= self._first_offsets[-1]):
            raise Corrupt(
                f"the chunk of offset {chunk.first_offset} at position {chunk.position} does not follow its "
                f"predecessor, which ends at position {self.data_bytes}"
            )
        if chunk.length < 1 or (not len(self) and chunk.position):
            raise Corrupt(f"a chunk of {chunk.length} bytes at position {chunk.position} cannot stand here")
        self._first_offsets.append(chunk.first_offset)
        self._positions.append(chunk.position)
        self._lengths.append(chunk.length)
        self._crcs.append(chunk.crc32c)
        self._timestamps.append(chunk.max_timestamp_ms)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: int) -> Chunk:
        return Chunk(
            self._first_offsets[index],
            self._positions[index],
            self._lengths[index],
            self._crcs[index],
            self._timestamps[index],
        )

    def first_offset(self, index: int) -> int:
        """The first offset of one chunk."""
        return self._first_offsets[index]

    def __iter__(self) -> Iterator[Chunk]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChunkTable) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    @property
    def data_bytes(self) -> int:
        """The bytes of all chunks together."""
        return self._positions[-1] + self._lengths[-1] if len(self) else 0

    def find_offset(self, offset: int) -> int:
        """The index of the chunk that holds ``offset``; the first one for an offset before it.

        The chunk may end below ``offset`` on a compacted topic: the next record is then in the following one.
        """
        return max(0, bisect_right(self._first_offsets, offset) - 1)

    def find_timestamp(self, timestamp_ms: int, start: int = 0) -> int | None:
        """The index of the first chunk from ``start`` whose largest timestamp is not before ``timestamp_ms``."""
        return next((i for i in range(start, len(self)) if self._timestamps[i] >= timestamp_ms), None)

    def to_bytes(self) -> bytes:
        """The rows as the object holds them."""
        return b"".join(_ROW.pack(*chunk) for chunk in self)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> ChunkTable:
        """The inverse of :meth:`to_bytes`. Raises `Corrupt` unless the rows make one run from position 0."""
        if len(data) % ROW_BYTES:
            raise Corrupt(f"a chunk table of {len(data)} bytes is not a multiple of {ROW_BYTES}")
        return cls(Chunk._make(row) for row in _ROW.iter_unpack(data))
