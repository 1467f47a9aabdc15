"""How far to fetch ahead of a reader of the archive. Pure.

A reader who goes on where he stopped gets twice as much ahead each time, up to `AHEAD_BYTES_MAX` and to the cache's
size divided by the active readers; a jump begins again with one chunk. Read-ahead may cross from one object into
the next.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from stratalog.tier.objects.chunk_table import CHUNK_BYTES
from stratalog.tier.reading.chunk_pins import Reader
from stratalog.tier.reading.remote_log import GROUP_COUNT

__all__ = ["AHEAD_BYTES_MAX", "ReadAhead"]

AHEAD_BYTES_MAX: Final = 96 << 20
"""Eight GETs of three chunks: the threads of the worker stay busy while as much as two GETs brought is being read.

More would not be faster, and what lies there for long has to be checked again before it is served.
"""

_IDLE_MS: Final = 30_000
_ROOMY_GETS: Final = 2


class _Stream(Struct):
    next_offset: int
    window_bytes: int
    read_ms: int


class ReadAhead:
    """The streams through one cache of ``cache_bytes``."""

    def __init__(
        self,
        cache_bytes: int,
        *,
        first_bytes: int = CHUNK_BYTES,
        limit_bytes: int = AHEAD_BYTES_MAX,
        idle_ms: int = _IDLE_MS,
    ) -> None:
        self._cache_bytes = cache_bytes
        self._limit_bytes = limit_bytes
        self._first_bytes = first_bytes
        self._idle_ms = idle_ms
        self._streams: OrderedDict[Reader, _Stream] = OrderedDict()  # who read longest ago first

    def on_read(self, reader: Reader, offset: int, next_offset: int, now_ms: int) -> int:
        """``reader`` read ``[offset, next_offset)``; returns how many bytes behind that to have in the cache.

        0 for a first read or a jump: the chunk itself is enough until a reader proves to read on.
        """
        self._forget_idle(now_ms)
        stream = self._streams.get(reader)
        if stream is None or stream.next_offset != offset:
            self._streams[reader] = _Stream(next_offset, 0, now_ms)
            self._streams.move_to_end(reader)
            return 0
        self._streams.move_to_end(reader)
        wanted = max(self._first_bytes, 2 * stream.window_bytes)
        stream.window_bytes = min(wanted, self._limit_bytes, self._cache_bytes // len(self._streams))
        stream.next_offset, stream.read_ms = next_offset, now_ms
        return stream.window_bytes

    @property
    def roomy(self) -> bool:
        """Whether each reader's share of the cache holds two GETs: one being read, and one on its way."""
        return self._cache_bytes >= _ROOMY_GETS * GROUP_COUNT * self._first_bytes * len(self._streams)

    def resize(self, cache_bytes: int) -> None:
        """The cache may use so much now."""
        self._cache_bytes = cache_bytes

    def leave(self, reader: Reader) -> None:
        """The reader is gone."""
        self._streams.pop(reader, None)

    def _forget_idle(self, now_ms: int) -> None:
        """Streams that ended without a word; each costs one look."""
        while self._streams:
            stream = next(iter(self._streams.values()))
            if now_ms - stream.read_ms < self._idle_ms:
                break
            self._streams.popitem(last=False)
