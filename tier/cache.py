"""The books of the disk cache of archived chunks: who waits for what, what is pinned, what goes next. Pure.

Files are written and removed by others: this class decides. One fill per chunk at a time, however many readers ask.
A chunk is pinned for a reader until it has been read past, or for 30 s. When more than 80 % of the cache is pinned,
readers that hold nothing yet are throttled, so that those under way can finish instead of evicting each other.
A chunk that was checked longer than 30 s ago counts as missing: filling it again first compares the file's CRC, and
asks the store only if it is wrong.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from stratalog.tier.commands import FilledChunk
from stratalog.tier.remote_log import ChunkId
from stratalog.wire.errors import Invalid

__all__ = ["Admission", "CachedChunk", "ChunkCache", "Reader"]

_PIN_MS: Final = 30_000
_CHECK_MS: Final = 30_000
_PINNED_PERCENT_MAX: Final = 80

Reader: TypeAlias = Hashable
"""Whoever reads on: one fetch session's partition, one connection's partition."""


class Admission(Enum):
    """What becomes of a chunk that a reader asks for."""

    HIT = "hit"
    """It is in the cache, and pinned for the reader."""
    FILL = "fill"
    """Space is reserved: start the fill now; the reader is among its waiters."""
    WAIT = "wait"
    """It is being filled; the reader was added to its waiters."""
    THROTTLED = "throttled"
    """There is no room that may be taken: answer with throttle time and ask again."""


@dataclass(slots=True)
class CachedChunk:
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

    def position_before(self, offset: int) -> int:
        """A batch border at or before the batch that holds ``offset``: scan from there."""
        return self.positions[max(0, bisect_right(self.offsets, offset) - 1)]


@dataclass(slots=True)
class _Slot:
    length: int
    chunk: CachedChunk | None = None
    checked_ms: int = 0
    checking: CachedChunk | None = None  # what was there, while it is checked again
    pins: dict[Reader, int] = field(default_factory=dict)  # reader -> when the pin ends


class ChunkCache:
    """At most ``limit_bytes`` of chunks, filled and being filled."""

    def __init__(self, limit_bytes: int, *, pin_ms: int = _PIN_MS, check_ms: int = _CHECK_MS) -> None:
        self._limit_bytes = limit_bytes
        self._pin_ms = pin_ms
        self._check_ms = check_ms
        self._slots: OrderedDict[ChunkId, _Slot] = OrderedDict()  # least recently used first
        self._pinned: dict[ChunkId, _Slot] = {}  # those with pins or under way: few, unlike all slots
        self._evicted: list[CachedChunk] = []
        self.used_bytes = 0
        self.hits = 0
        """Readers that found a chunk here, each once a chunk; `misses` are those for whom one had to be fetched."""
        self.misses = 0

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, chunk_id: ChunkId, reader: Reader, now_ms: int) -> CachedChunk | None:
        """The chunk if it is there; pinned for ``reader``."""
        slot = self._slots.get(chunk_id)
        if slot is None or slot.chunk is None or now_ms - slot.checked_ms >= self._check_ms:
            return None
        self.hits += reader not in slot.pins  # who has asked for it before was counted then
        self._pin(chunk_id, slot, reader, now_ms)
        return slot.chunk

    def ask(self, chunk_id: ChunkId, length: int, reader: Reader, now_ms: int) -> Admission:
        """A reader wants the chunk of ``length`` bytes."""
        slot = self._slots.get(chunk_id)
        if slot is not None:
            fresh = reader not in slot.pins
            self._pin(chunk_id, slot, reader, now_ms)
            if slot.chunk is not None and now_ms - slot.checked_ms >= self._check_ms:
                slot.checking, slot.chunk = slot.chunk, None
                return Admission.FILL
            self.hits += fresh and slot.chunk is not None
            return Admission.WAIT if slot.chunk is None else Admission.HIT
        self.misses += 1
        self._expire(now_ms)
        if self._is_crowded() and not self._holds_any(reader):
            return Admission.THROTTLED
        if not self._make_room(length):
            return Admission.THROTTLED
        slot = self._slots[chunk_id] = _Slot(length)
        self.used_bytes += length
        self._pin(chunk_id, slot, reader, now_ms)
        return Admission.FILL

    def filled(self, chunk_id: ChunkId, filled: FilledChunk, now_ms: int) -> list[Reader]:
        """The fill is done; returns the readers that waited, each with a fresh pin. Raises `Invalid` if none ran."""
        slot = self._slots.get(chunk_id)
        if slot is None or slot.chunk is not None:
            raise Invalid(f"no fill of chunk {chunk_id.number} of {chunk_id.uuid.hex()} is under way")
        self.used_bytes += filled.length - slot.length
        slot.length, slot.checked_ms = filled.length, now_ms
        slot.chunk = CachedChunk(
            filled.path,
            filled.length,
            filled.next_offset,
            _native("q", filled.offsets),
            _native("i", filled.positions),
            filled.start,
            filled.shared,
        )
        if slot.checking is not None and slot.checking.path != filled.path:
            self._evicted.append(slot.checking)
        slot.checking = None
        for reader in slot.pins:
            slot.pins[reader] = now_ms + self._pin_ms
        self._settle(chunk_id, slot)
        return list(slot.pins)

    def failed(self, chunk_id: ChunkId) -> list[Reader]:
        """The fill failed; the space is free again. Returns the readers that waited."""
        slot = self._slots.get(chunk_id)
        if slot is None or slot.chunk is not None:
            return []
        del self._slots[chunk_id], self._pinned[chunk_id]
        self.used_bytes -= slot.length
        if slot.checking is not None:
            self._evicted.append(slot.checking)
        return list(slot.pins)

    def read_past(self, chunk_id: ChunkId, reader: Reader) -> None:
        """``reader`` will not need the chunk again."""
        slot = self._pinned.get(chunk_id)
        if slot is not None:
            slot.pins.pop(reader, None)
            self._settle(chunk_id, slot)

    def leave(self, reader: Reader) -> None:
        """The reader is gone: its pins go; fills it asked for go on."""
        for chunk_id in list(self._pinned):
            self.read_past(chunk_id, reader)

    def forget(self, chunk_id: ChunkId) -> None:
        """Drop a chunk whatever is pinned: its file was found damaged or missing."""
        slot = self._slots.get(chunk_id)
        if slot is not None and slot.chunk is not None:
            self._drop(chunk_id, slot)

    def restore(self, chunk_id: ChunkId, filled: FilledChunk) -> bool:
        """Take in a file found at start-up; false if there is no room for it."""
        if chunk_id in self._slots or self.used_bytes + filled.length > self._limit_bytes:
            return False
        self._slots[chunk_id] = _Slot(filled.length)
        self.used_bytes += filled.length
        self.filled(chunk_id, filled, 0)
        return True

    def path_to_check(self, chunk_id: ChunkId) -> str | None:
        """The cache's file of a chunk that is to be filled again; None if it has none."""
        slot = self._slots.get(chunk_id)
        old = None if slot is None else slot.checking
        return None if old is None or old.shared else old.path

    def take_evicted(self) -> list[CachedChunk]:
        """Chunks whose files are to be closed now, and removed if they are the cache's own."""
        evicted, self._evicted = self._evicted, []
        return evicted

    @property
    def pinned_bytes(self) -> int:
        """Bytes that may not be evicted: pinned or being filled."""
        return sum(slot.length for slot in self._pinned.values())

    def _pin(self, chunk_id: ChunkId, slot: _Slot, reader: Reader, now_ms: int) -> None:
        self._slots.move_to_end(chunk_id)
        slot.pins[reader] = now_ms + self._pin_ms
        self._pinned[chunk_id] = slot

    def _settle(self, chunk_id: ChunkId, slot: _Slot) -> None:
        if slot.chunk is not None and not slot.pins:
            self._pinned.pop(chunk_id, None)

    def _is_crowded(self) -> bool:
        return self.pinned_bytes * 100 > self._limit_bytes * _PINNED_PERCENT_MAX

    def _holds_any(self, reader: Reader) -> bool:
        return any(reader in slot.pins for slot in self._pinned.values())

    def _expire(self, now_ms: int) -> None:
        for chunk_id, slot in list(self._pinned.items()):
            if slot.chunk is not None:
                slot.pins = {reader: end_ms for reader, end_ms in slot.pins.items() if end_ms > now_ms}
                self._settle(chunk_id, slot)

    def _make_room(self, length: int) -> bool:
        """Evict the least recently used chunks that nobody pins; nothing if that would not be enough.

        A chunk larger than the whole cache is let in alone: without it its readers would never go on.
        """
        excess = self.used_bytes + length - self._limit_bytes
        victims = []
        for chunk_id, slot in self._slots.items():
            if excess <= 0:
                break
            if chunk_id not in self._pinned:
                victims.append((chunk_id, slot))
                excess -= slot.length
        if excess > 0 and self._pinned:
            return False
        for chunk_id, slot in victims:
            self._drop(chunk_id, slot)
        return True

    def _drop(self, chunk_id: ChunkId, slot: _Slot) -> None:
        del self._slots[chunk_id]
        self._pinned.pop(chunk_id, None)
        self.used_bytes -= slot.length
        if slot.chunk is not None:
            self._evicted.append(slot.chunk)


def _native(code: str, data: bytes) -> array[int]:
    values: array[int] = array(code)
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
