"""Holders of chunks of the cache, each with its end of time. Pure.

A reader's pin ends when the reader has read past the chunk, or some time after it last used it; a hold ends at its own
time, for any reader. Each operation costs the same however many readers and chunks there are.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from stratalog.tier.reading.remote_log import ChunkId

__all__ = ["ChunkPins", "Reader"]

Reader: TypeAlias = Hashable
"""A reader that goes on reading: one fetch session's partition, one connection's partition."""

Key = TypeVar("Key", bound=Hashable)
Member = TypeVar("Member", bound=Hashable)


class ChunkPins:
    """Pins of ``pin_ms`` each, and holds."""

    def __init__(self, pin_ms: int) -> None:
        self._pin_ms = pin_ms
        self._ends: OrderedDict[tuple[ChunkId, Reader], int] = OrderedDict()  # ends first, first
        self._readers: dict[ChunkId, dict[Reader, None]] = {}
        self._chunks: dict[Reader, dict[ChunkId, None]] = {}
        self._held: dict[ChunkId, int] = {}
        self._hold_ends: list[tuple[int, ChunkId]] = []  # a heap; what is not in ``_held`` as well is void

    def __contains__(self, chunk_id: ChunkId) -> bool:
        """True if a reader holds the chunk."""
        return chunk_id in self._readers or chunk_id in self._held

    def pin(self, chunk_id: ChunkId, reader: Reader, now_ms: int) -> bool:
        """``reader`` uses the chunk; whether it had no pin on it."""
        pair = (chunk_id, reader)
        known = pair in self._ends
        self._ends[pair] = now_ms + self._pin_ms
        if known:
            self._ends.move_to_end(pair)
            return False
        self._readers.setdefault(chunk_id, {})[reader] = None
        self._chunks.setdefault(reader, {})[chunk_id] = None
        return True

    def readers(self, chunk_id: ChunkId) -> Sequence[Reader]:
        """Those with a pin, in the order in which they came."""
        return tuple(self._readers.get(chunk_id, ()))

    def chunks(self, reader: Reader) -> Sequence[ChunkId]:
        """The chunks that the reader has pinned."""
        return tuple(self._chunks.get(reader, ()))

    def reads(self, reader: Reader) -> bool:
        """Whether the reader has any pin."""
        return reader in self._chunks

    def readers_of_any(self) -> Iterable[Reader]:
        """Those with a pin on some chunk."""
        return self._chunks

    def release(self, chunk_id: ChunkId, reader: Reader) -> None:
        """The reader needs the chunk no longer."""
        if self._ends.pop((chunk_id, reader), None) is None:
            return
        _take_out(self._readers, chunk_id, reader)
        _take_out(self._chunks, reader, chunk_id)

    def hold(self, chunk_id: ChunkId, until_ms: int) -> None:
        """Keep the chunk until then, if it is not held for longer already."""
        if until_ms > self._held.get(chunk_id, until_ms - 1):
            self._held[chunk_id] = until_ms
            heapq.heappush(self._hold_ends, (until_ms, chunk_id))

    def held(self, chunk_id: ChunkId) -> bool:
        """Whether the chunk is kept for any reader."""
        return chunk_id in self._held

    def drop(self, chunk_id: ChunkId) -> None:
        """The chunk is gone."""
        for reader in self.readers(chunk_id):
            self.release(chunk_id, reader)
        self._held.pop(chunk_id, None)

    def expire(self, now_ms: int, waits: Callable[[ChunkId], bool]) -> list[ChunkId]:
        """End what has run out; the chunks concerned. Pins of readers whose chunk ``waits`` for its fill go on."""
        ended: list[ChunkId] = []
        while self._ends:
            (chunk_id, reader), end_ms = next(iter(self._ends.items()))
            if end_ms > now_ms:
                break
            if waits(chunk_id):
                self.pin(chunk_id, reader, now_ms)
            else:
                self.release(chunk_id, reader)
                ended.append(chunk_id)
        while self._hold_ends and self._hold_ends[0][0] <= now_ms:
            until_ms, chunk_id = heapq.heappop(self._hold_ends)
            if self._held.get(chunk_id) == until_ms:
                del self._held[chunk_id]
                ended.append(chunk_id)
        return ended


def _take_out(sets: dict[Key, dict[Member, None]], key: Key, member: Member) -> None:
    members = sets[key]
    del members[member]
    if not members:
        del sets[key]
