"""The two sparse indexes of a segment: offset to position, and timestamp to offset.

Files as Kafka writes them, big-endian, without header or checksum:

.. code-block:: text

    .index      8 bytes an entry    int32 offset - base offset     int32 position
    .timeindex 12 bytes an entry    int64 timestamp                int32 offset - base offset

An offset entry names the *last* offset of the batch that begins at its position; it is written only when more
than ``index.interval.bytes`` of batches precede that batch since the last entry. A time entry says that the
largest timestamp so far belongs to the batch that ends with that offset; timestamps ascend strictly. In memory
each column is an `array` of native numbers, found by bisection. Source: Kafka's ``OffsetIndex``, ``TimeIndex``.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt
from typing import Final, NamedTuple

from stratalog.wire.errors import Corrupt

__all__ = ["OFFSET_ENTRY_BYTES", "TIME_ENTRY_BYTES", "OffsetIndex", "TimeEntry", "TimeIndex"]

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12

_LITTLE_ENDIAN: Final = sys.byteorder == "little"
Buffer = bytes | bytearray | memoryview


class TimeEntry(NamedTuple):
    """The largest timestamp so far, and the last offset of the batch that holds it."""

    timestamp_ms: int
    offset: int


def _words(data: Buffer, entry_bytes: int, what: str) -> array[int]:
    if len(data) % entry_bytes:
        raise Corrupt(f"{what}: {len(data)} bytes are not a whole number of {entry_bytes}-byte entries; rebuild it")
    words = array("i")
    words.frombytes(bytes(data))
    if _LITTLE_ENDIAN:
        words.byteswap()
    return words


def _file_bytes(words: array[int]) -> bytes:
    if _LITTLE_ENDIAN:
        words.byteswap()
    return words.tobytes()


def _ascending(column: array[int]) -> bool:
    return all(map(lt, column, column[1:]))


class OffsetIndex:
    """Offset to position within one segment."""

    __slots__ = ("base_offset", "positions", "relative_offsets", "stored_count")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.relative_offsets = array("i")
        self.positions = array("i")
        self.stored_count = 0
        """How many entries the file holds already."""

    @classmethod
    def from_bytes(cls, base_offset: int, data: Buffer) -> OffsetIndex:
        """Parse a ``.index`` file. Raises `Corrupt` if the size is not whole entries or a column does not ascend."""
        words = _words(data, OFFSET_ENTRY_BYTES, f"offset index {base_offset:020d}")
        index = cls(base_offset)
        index.relative_offsets = words[0::2]
        index.positions = words[1::2]
        index.stored_count = len(index.positions)
        if not _ascending(index.relative_offsets) or not _ascending(index.positions):
            raise Corrupt(f"offset index {base_offset:020d}: entries do not ascend; rebuild it")
        if index.positions and (index.positions[0] < 0 or index.relative_offsets[0] < 0):
            raise Corrupt(f"offset index {base_offset:020d}: negative first entry; rebuild it")
        return index

    def to_bytes(self, first: int = 0) -> bytes:
        """The entries from number ``first`` on, as the file holds them."""
        count = len(self.positions) - first
        words = array("i", bytes(4 * 2 * count))
        words[0::2] = self.relative_offsets[first:]
        words[1::2] = self.positions[first:]
        return _file_bytes(words)

    def __len__(self) -> int:
        return len(self.positions)

    def append(self, offset: int, position: int) -> None:
        """Add the batch that begins at ``position`` and ends with ``offset``; both above the last entry's."""
        self.relative_offsets.append(offset - self.base_offset)
        self.positions.append(position)

    def lookup(self, offset: int) -> int:
        """A position from which a forward scan meets the batch of ``offset``: the floor entry's, else 0."""
        slot = bisect_right(self.relative_offsets, min(offset - self.base_offset, 0x7FFFFFFF))
        return self.positions[slot - 1] if slot else 0

    def floor(self, offset: int) -> tuple[int, int]:
        """The offset and position of the floor entry; the base offset and 0 below all."""
        slot = bisect_right(self.relative_offsets, min(offset - self.base_offset, 0x7FFFFFFF))
        if not slot:
            return self.base_offset, 0
        return self.base_offset + self.relative_offsets[slot - 1], self.positions[slot - 1]

    def floor_at(self, position: int) -> tuple[int, int]:
        """The offset and position of the last entry at or below ``position``; the base offset and 0 below all."""
        slot = bisect_right(self.positions, min(position, 0x7FFFFFFF))
        if not slot:
            return self.base_offset, 0
        return self.base_offset + self.relative_offsets[slot - 1], self.positions[slot - 1]

    def truncate(self, position: int) -> None:
        """Forget every batch that begins at or above byte ``position``."""
        count = bisect_left(self.positions, min(position, 0x7FFFFFFF))
        del self.positions[count:]
        del self.relative_offsets[count:]

    @property
    def size_bytes(self) -> int:
        """Memory of the columns."""
        return OFFSET_ENTRY_BYTES * len(self.positions)


class TimeIndex:
    """Timestamp to offset within one segment."""

    __slots__ = ("base_offset", "relative_offsets", "stored_count", "timestamps")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.timestamps = array("q")
        self.relative_offsets = array("i")
        self.stored_count = 0
        """How many entries the file holds already."""

    @classmethod
    def from_bytes(cls, base_offset: int, data: Buffer) -> TimeIndex:
        """Parse a ``.timeindex`` file. Raises `Corrupt` as `OffsetIndex.from_bytes` does."""
        words = _words(data, TIME_ENTRY_BYTES, f"time index {base_offset:020d}")
        index = cls(base_offset)
        halves = array("i", bytes(8 * (len(words) // 3)))
        halves[1 if _LITTLE_ENDIAN else 0 :: 2] = words[0::3]
        halves[0 if _LITTLE_ENDIAN else 1 :: 2] = words[1::3]
        index.timestamps.frombytes(halves.tobytes())
        index.relative_offsets = words[2::3]
        index.stored_count = len(index.timestamps)
        if not _ascending(index.timestamps) or not _ascending(index.relative_offsets):
            raise Corrupt(f"time index {base_offset:020d}: entries do not ascend; rebuild it")
        if index.relative_offsets and index.relative_offsets[0] < 0:
            raise Corrupt(f"time index {base_offset:020d}: negative first entry; rebuild it")
        return index

    def to_bytes(self, first: int = 0) -> bytes:
        """The entries from number ``first`` on, as the file holds them."""
        count = len(self.timestamps) - first
        halves = array("i")
        halves.frombytes(self.timestamps[first:].tobytes())
        words = array("i", bytes(4 * 3 * count))
        words[0::3] = halves[1 if _LITTLE_ENDIAN else 0 :: 2]
        words[1::3] = halves[0 if _LITTLE_ENDIAN else 1 :: 2]
        words[2::3] = self.relative_offsets[first:]
        return _file_bytes(words)

    def __len__(self) -> int:
        return len(self.timestamps)

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry if ``timestamp_ms`` is above the last entry's (and is a timestamp at all)."""
        if timestamp_ms > (self.timestamps[-1] if self.timestamps else -1):
            self.timestamps.append(timestamp_ms)
            self.relative_offsets.append(offset - self.base_offset)

    def lookup(self, timestamp_ms: int) -> TimeEntry:
        """The last entry at or below ``timestamp_ms``, else ``(-1, base offset)``."""
        slot = bisect_right(self.timestamps, timestamp_ms)
        if not slot:
            return TimeEntry(-1, self.base_offset)
        return TimeEntry(self.timestamps[slot - 1], self.base_offset + self.relative_offsets[slot - 1])

    def last(self) -> TimeEntry:
        """The last entry, else ``(-1, base offset)``."""
        if not self.timestamps:
            return TimeEntry(-1, self.base_offset)
        return TimeEntry(self.timestamps[-1], self.base_offset + self.relative_offsets[-1])

    def truncate(self, offset: int) -> None:
        """Forget every entry at or above ``offset``."""
        count = bisect_left(self.relative_offsets, min(offset - self.base_offset, 0x7FFFFFFF))
        del self.timestamps[count:]
        del self.relative_offsets[count:]

    @property
    def size_bytes(self) -> int:
        """Memory of the columns."""
        return TIME_ENTRY_BYTES * len(self.timestamps)
