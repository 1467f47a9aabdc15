"""The books of the disk cache of archived chunks: who waits for what, what is pinned, what goes next. Pure.

Files are written and removed by others: this class decides. One fill per chunk at a time, however many readers ask.
A chunk is pinned for a reader until it has been read past, the reader is gone, or for 30 s. When more than 80 % of the cache is pinned,
readers that hold nothing yet are throttled, so that those under way can finish instead of evicting each other; those
of a topic that has pinned more than its share of the cache wait before that.
A chunk that was checked longer than 30 s ago counts as missing: filling it again first compares the file's CRC, and
asks the store only if it is wrong. So does a file that an earlier run left, and one whose sparse index was let go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from stratalog.tier.messages.commands import FilledChunk
from stratalog.tier.reading.cached_chunk import CachedChunk, ChunkFile
from stratalog.tier.reading.chunk_pins import ChunkPins, Reader
from stratalog.tier.reading.eviction import EvictionOrder, Share
from stratalog.tier.reading.remote_log import ChunkId
from stratalog.wire.errors import Invalid

__all__ = ["Admission", "CacheLimits", "ChunkCache"]

_PIN_MS: Final = 30_000
_CHECK_MS: Final = 30_000
_PINNED_PERCENT_MAX: Final = 80
_GONE_LOOK_MS: Final = 1_000
"""Readers that are gone are looked for so seldom: there may be thousands with pins, and as many that wait for room."""
_HELD_PERCENT_MAX: Final = 50
"""Share of the cache for chunks that are held for possible readers: present readers need the rest."""
_INDEXES_KEPT: Final = 256
"""Sparse indexes of chunks without readers: 3 MB. Without its index a chunk is checked, and indexed, again."""


class Admission(Enum):
    """The fate of a chunk that a reader asks for."""

    HIT = "hit"
    """It is in the cache, and pinned for the reader."""
    FILL = "fill"
    """Space is reserved: start the fill now; the reader is among its waiters."""
    WAIT = "wait"
    """It is being filled; the reader was added to its waiters."""
    THROTTLED = "throttled"
    """There is no room that may be taken: answer with throttle time and ask again."""


class CacheLimits(Struct, frozen=True):
    """At most ``cache_bytes`` of chunks, ``share_percent`` of that for one topic if others need the room.

    ``free_bytes_min`` stay free for other users of the cache's file system.
    """

    cache_bytes: int
    share_percent: int = 100
    free_bytes_min: int = 0

    @property
    def share_bytes(self) -> int:
        """Bytes that one topic may keep when room is needed."""
        return self.cache_bytes * self.share_percent // 100


class _Slot(Struct):
    share: Share
    length: int
    file: ChunkFile | None = None  # what is on the disk; None while it comes for the first time
    chunk: CachedChunk | None = None  # with its index, if it may be served
    checked_ms: int = 0
    filling: bool = False
    held: bool = False  # for any reader
    used: bool = False
    proven: bool = False  # used again after its first reader was done


class ChunkCache:
    """Chunks filled and being filled, within ``limits``."""

    def __init__(
        self,
        limits: CacheLimits | int,
        *,
        pin_ms: int = _PIN_MS,
        check_ms: int = _CHECK_MS,
        indexes_kept: int = _INDEXES_KEPT,
        is_gone: Callable[[Reader], bool] = lambda _reader: False,
    ) -> None:
        """An int limits bytes alone. ``is_gone`` says whether a reader will not come again."""
        self.limits = CacheLimits(limits) if isinstance(limits, int) else limits
        self.limit_bytes = self.limits.cache_bytes
        """Bytes that may be used now: fewer than configured when the disk is nearly full."""
        self._check_ms = check_ms
        self._is_gone, self._looked_ms = is_gone, -_GONE_LOOK_MS
        self._indexes_kept = indexes_kept
        self._slots: dict[ChunkId, _Slot] = {}
        self._pins = ChunkPins(pin_ms)
        self._idle = EvictionOrder(self.limits.cache_bytes)
        self._indexed: OrderedDict[ChunkId, None] = OrderedDict()  # idle ones with an index, let go longest ago first
        self._used_by: dict[Share, int] = {}
        self._pinned_by: dict[Share, int] = {}
        self._greedy: dict[Share, None] = {}
        self._evicted: list[ChunkFile] = []
        self._disk_bytes = 0
        self._held_bytes = 0
        self.used_bytes = 0
        self.pinned_bytes = 0
        """Bytes that may not be evicted: pinned, held or being filled."""
        self.hits = 0
        """Readers who found a chunk here, counted once a chunk."""
        self.misses = 0
        """Chunks that were asked for and not here, whether there was room or not."""
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._slots)

    # -- readers ----------------------------------------------------------------------------------------------------

    def get(self, chunk_id: ChunkId, reader: Reader, now_ms: int) -> CachedChunk | None:
        """The chunk if it is there; pinned for ``reader``."""
        slot = self._slots.get(chunk_id)
        if slot is None or not self._ready(slot, now_ms):
            return None
        self._pin(chunk_id, slot, reader, now_ms)
        return slot.chunk

    def lacks(self, chunk_id: ChunkId) -> bool:
        """Whether the chunk would have to come from the bucket: it is neither on the disk nor on its way."""
        return chunk_id not in self._slots

    def ask(self, chunk_id: ChunkId, length: int, reader: Reader, now_ms: int, share: Share = None) -> Admission:
        """A reader wants the chunk of ``length`` bytes, which counts against the topic ``share``."""
        slot = self._slots.get(chunk_id)
        if slot is None:
            self.misses += 1
            self._expire(now_ms)
            if not self._may_add(reader, share, length) and not (
                self._let_gone_go(now_ms) and self._may_add(reader, share, length)
            ):
                return Admission.THROTTLED
            slot = self._add(chunk_id, share, length)
        elif slot.filling:
            self._pin(chunk_id, slot, reader, now_ms)
            return Admission.WAIT
        elif self._ready(slot, now_ms):
            self._pin(chunk_id, slot, reader, now_ms)
            return Admission.HIT
        self._pin(chunk_id, slot, reader, now_ms)
        slot.filling, slot.chunk = True, None
        return Admission.FILL

    def filled(self, chunk_id: ChunkId, filled: FilledChunk, now_ms: int) -> Sequence[Reader]:
        """The fill is done; returns the readers that waited, each with a fresh pin. Raises `Invalid` if none ran."""
        slot = self._slots.get(chunk_id)
        if slot is None or not slot.filling:
            raise Invalid(f"no fill of chunk {chunk_id.number} of {chunk_id.uuid.hex()} is under way")
        self._place(slot, ChunkFile(filled.path, filled.shared), filled.length)
        slot.filling, slot.checked_ms = False, now_ms
        slot.chunk = CachedChunk.of(filled)
        readers = self._pins.readers(chunk_id)
        for reader in readers:
            self._pins.pin(chunk_id, reader, now_ms)
        self._settle(chunk_id, slot)
        return readers

    def failed(self, chunk_id: ChunkId) -> Sequence[Reader]:
        """The fill failed; the space is free again. Returns the readers that waited."""
        slot = self._slots.get(chunk_id)
        if slot is None or not slot.filling:
            return ()
        readers = self._pins.readers(chunk_id)
        self._drop(chunk_id, slot)
        return readers

    def read_past(self, chunk_id: ChunkId, reader: Reader) -> None:
        """``reader`` will not need the chunk again."""
        self._pins.release(chunk_id, reader)
        slot = self._slots.get(chunk_id)
        if slot is not None:
            self._settle(chunk_id, slot)

    def leave(self, reader: Reader) -> None:
        """The reader is gone: its pins go; fills it asked for go on."""
        for chunk_id in self._pins.chunks(reader):
            self.read_past(chunk_id, reader)

    def hold(self, chunk_id: ChunkId, until_ms: int) -> bool:
        """Keep a chunk that is here or on its way until then, for any reader; False if too much is held already."""
        slot = self._slots.get(chunk_id)
        if slot is None:
            return False
        if not slot.held:
            if (self._held_bytes + slot.length) * 100 > self.limits.cache_bytes * _HELD_PERCENT_MAX:
                return False
            self._held_bytes += slot.length
            slot.held = True
            self._take(chunk_id, slot)
        self._pins.hold(chunk_id, until_ms)
        return True

    # -- files ------------------------------------------------------------------------------------------------------

    def forget(self, chunk_id: ChunkId) -> None:
        """Drop a chunk whatever is pinned: its file was found damaged or missing."""
        slot = self._slots.get(chunk_id)
        if slot is not None and not slot.filling:
            self._drop(chunk_id, slot)

    def restore(self, chunk_id: ChunkId, path: str, length: int, share: Share = None) -> bool:
        """Take in a file found at start-up, to be checked before it is served; false if there is no room for it."""
        if chunk_id in self._slots or self.used_bytes + length > self.limit_bytes:
            return False
        slot = self._add(chunk_id, share, length)
        self._place(slot, ChunkFile(path), length)
        slot.used = True
        self._settle(chunk_id, slot)
        return True

    def path_to_check(self, chunk_id: ChunkId) -> str | None:
        """The cache's file of a chunk that is to be filled again; None if it has none."""
        slot = self._slots.get(chunk_id)
        if slot is None or not slot.filling or slot.file is None or slot.file.shared:
            return None
        return slot.file.path

    def note_free(self, free_bytes: int) -> None:
        """So much is free on the cache's file system: when that is too little, chunks go."""
        room = max(0, self._disk_bytes + free_bytes - self.limits.free_bytes_min)
        self.limit_bytes = min(self.limits.cache_bytes, room)
        self._shrink(self.limit_bytes)

    def take_evicted(self) -> list[ChunkFile]:
        """Files that are to be closed now, and removed if they are the cache's own."""
        evicted, self._evicted = self._evicted, []
        return evicted

    # -- books ------------------------------------------------------------------------------------------------------

    def _ready(self, slot: _Slot, now_ms: int) -> bool:
        return slot.chunk is not None and now_ms - slot.checked_ms < self._check_ms

    def _add(self, chunk_id: ChunkId, share: Share, length: int) -> _Slot:
        slot = self._slots[chunk_id] = _Slot(share, length)
        _count(self._used_by, share, length)
        _count(self._pinned_by, share, length)
        self.used_bytes += length
        self.pinned_bytes += length
        self._judge(share)
        return slot

    def _weigh(self, slot: _Slot, more_bytes: int) -> None:
        """A slot that is pinned turns out larger, or smaller."""
        slot.length += more_bytes
        _count(self._used_by, slot.share, more_bytes)
        _count(self._pinned_by, slot.share, more_bytes)
        self.used_bytes += more_bytes
        self.pinned_bytes += more_bytes
        self._held_bytes += more_bytes if slot.held else 0
        self._judge(slot.share)

    def _judge(self, share: Share) -> None:
        if self._used_by.get(share, 0) > self.limits.share_bytes:
            self._greedy[share] = None
        else:
            self._greedy.pop(share, None)

    def _place(self, slot: _Slot, file: ChunkFile, length: int) -> None:
        """The slot's bytes are in ``file`` from now on."""
        if slot.file is not None:
            self._disk_bytes -= slot.length * slot.file.disk_share
            if slot.file.path != file.path:
                self._evicted.append(slot.file)
        self._disk_bytes += length * file.disk_share
        self._weigh(slot, length - slot.length)
        slot.file = file

    def _pin(self, chunk_id: ChunkId, slot: _Slot, reader: Reader, now_ms: int) -> None:
        self._take(chunk_id, slot)
        if self._pins.pin(chunk_id, reader, now_ms):
            slot.proven = slot.proven or slot.used
            slot.used = True
            self.hits += slot.chunk is not None

    def _take(self, chunk_id: ChunkId, slot: _Slot) -> None:
        """A reader holds the chunk from now on."""
        if chunk_id in self._idle:
            slot.proven = self._idle.remove(chunk_id)
            self._indexed.pop(chunk_id, None)
            self.pinned_bytes += slot.length
            _count(self._pinned_by, slot.share, slot.length)

    def _settle(self, chunk_id: ChunkId, slot: _Slot) -> None:
        """A chunk without holders may be evicted; its index is kept for a while."""
        if slot.filling or chunk_id in self._pins or chunk_id in self._idle:
            return
        self.pinned_bytes -= slot.length
        _count(self._pinned_by, slot.share, -slot.length)
        self._idle.add(chunk_id, slot.share, slot.length, proven=slot.proven)
        if slot.chunk is not None:
            self._indexed[chunk_id] = None
            if len(self._indexed) > self._indexes_kept:
                oldest, _ = self._indexed.popitem(last=False)
                self._slots[oldest].chunk = None

    def _may_add(self, reader: Reader, share: Share, length: int) -> bool:
        """Whether the reader may have another chunk; there is room for it then."""
        return (self._pins.reads(reader) or not self._is_crowded(share)) and self._make_room(length)

    def _let_gone_go(self, now_ms: int) -> bool:
        """End the pins of readers that are gone; whether there were any."""
        if now_ms - self._looked_ms < _GONE_LOOK_MS:
            return False
        self._looked_ms = now_ms
        gone = [reader for reader in self._pins.readers_of_any() if self._is_gone(reader)]
        for reader in gone:
            self.leave(reader)
        return bool(gone)

    def _is_crowded(self, share: Share) -> bool:
        if self.pinned_bytes * 100 > self.limit_bytes * _PINNED_PERCENT_MAX:
            return True
        return self.limits.share_percent < 100 and self._pinned_by.get(share, 0) > self.limits.share_bytes

    def _expire(self, now_ms: int) -> None:
        for chunk_id in self._pins.expire(now_ms, self._is_filling):
            slot = self._slots[chunk_id]
            if slot.held and not self._pins.held(chunk_id):
                slot.held = False
                self._held_bytes -= slot.length
            self._settle(chunk_id, slot)

    def _is_filling(self, chunk_id: ChunkId) -> bool:
        return self._slots[chunk_id].filling

    def _make_room(self, length: int) -> bool:
        """Evict chunks without holders; nothing if that would not be enough.

        A chunk larger than the whole cache is let in alone: without it its readers would never go on.
        """
        excess = self.used_bytes + length - self.limit_bytes
        if excess > self._idle.size_bytes and self.pinned_bytes:
            return False
        self._shrink(self.limit_bytes - length)
        return True

    def _shrink(self, limit_bytes: int) -> None:
        while self.used_bytes > limit_bytes and (victim := self._idle.first(self._greedy)) is not None:
            self.evictions += 1
            self._drop(victim, self._slots[victim])

    def _drop(self, chunk_id: ChunkId, slot: _Slot) -> None:
        self._pins.drop(chunk_id)
        self._take(chunk_id, slot)
        del self._slots[chunk_id]
        if slot.file is not None:
            self._evicted.append(slot.file)
            self._disk_bytes -= slot.length * slot.file.disk_share
        self._weigh(slot, -slot.length)


def _count(sums: dict[Share, int], share: Share, more: int) -> None:
    total = sums.get(share, 0) + more
    if total:
        sums[share] = total
    else:
        sums.pop(share, None)
