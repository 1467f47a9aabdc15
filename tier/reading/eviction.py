"""In which order chunks leave the cache: a queue for those used once, one for those used again. Pure.

Only chunks without holders are here. A chunk that was used once goes before all that were used again, so that one
long scan of the archive does not drive out what many readers come back to; within a queue the one that was let go
longest ago goes first. Chunks that were used again may take up most of the cache and no more: beyond that its oldest are
queued behind those used once and have to prove themselves anew. Topics that take more than their share pay first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from stratalog.tier.reading.remote_log import ChunkId

__all__ = ["EvictionOrder", "Share"]

PROTECTED_PERCENT: Final = 80
"""Share of the cache's limit for chunks that were used again."""

Share: TypeAlias = Hashable
"""Whose share of the cache a chunk counts against: its topic."""


class _Idle(NamedTuple):
    share: Share
    length: int
    proven: bool


class _Queues(Struct):
    """The chunks of one share, let go longest ago first."""

    once: OrderedDict[ChunkId, None] = field(default_factory=OrderedDict)
    again: OrderedDict[ChunkId, None] = field(default_factory=OrderedDict)

    def of(self, *, proven: bool) -> OrderedDict[ChunkId, None]:
        return self.again if proven else self.once

    def first(self) -> ChunkId | None:
        for queue in (self.once, self.again):
            for chunk_id in queue:
                return chunk_id
        return None


class EvictionOrder:
    """The chunks of a cache of ``limit_bytes`` that may go."""

    def __init__(self, limit_bytes: int) -> None:
        self.size_bytes = 0
        self._protected_bytes_max = limit_bytes * PROTECTED_PERCENT // 100
        self._protected_bytes = 0
        self._idle: dict[ChunkId, _Idle] = {}
        self._all = _Queues()
        self._by_share: dict[Share, _Queues] = {}

    def __len__(self) -> int:
        return len(self._idle)

    def __contains__(self, chunk_id: ChunkId) -> bool:
        return chunk_id in self._idle

    def add(self, chunk_id: ChunkId, share: Share, length: int, *, proven: bool) -> None:
        """The last holder let go of the chunk; ``proven``: it was used again."""
        self._idle[chunk_id] = _Idle(share, length, proven)
        self.size_bytes += length
        self._all.of(proven=proven)[chunk_id] = None
        self._by_share.setdefault(share, _Queues()).of(proven=proven)[chunk_id] = None
        if proven:
            self._protected_bytes += length
            while self._protected_bytes > self._protected_bytes_max:
                self._demote(next(iter(self._all.again)))

    def remove(self, chunk_id: ChunkId) -> bool:
        """Remove a chunk that is used or gone; returns whether it was proven. Raises `KeyError` if it is not here."""
        share, length, proven = self._idle.pop(chunk_id)
        self.size_bytes -= length
        self._protected_bytes -= length if proven else 0
        del self._all.of(proven=proven)[chunk_id]
        queues = self._by_share[share]
        del queues.of(proven=proven)[chunk_id]
        if not queues.once and not queues.again:
            del self._by_share[share]
        return proven

    def first(self, greedy: Iterable[Share] = ()) -> ChunkId | None:
        """The chunk that goes next, of a share that is ``greedy`` if there is one; None if no chunk may go."""
        for share in greedy:
            queues = self._by_share.get(share)
            if queues is not None:
                return queues.first()
        return self._all.first()

    def _demote(self, chunk_id: ChunkId) -> None:
        share, length, _ = self._idle[chunk_id]
        self.remove(chunk_id)
        self.add(chunk_id, share, length, proven=False)
