"""Whole batches cut out of cached chunks: from the batch that holds an offset, as many as a reader takes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from stratalog.hot.config import LONG_MAX
from stratalog.hot.storage.filesystem import File
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.reading.cached_chunk import CachedChunk
from stratalog.wire.batch import iter_headers, read_header
from stratalog.wire.parts import FileSlice

__all__ = ["ChunkSlices", "RemoteSlices"]

_PROBE_BYTES = 64 << 10
_LENGTH_AT, _LAST_DELTA_AT, _LOG_OVERHEAD_BYTES = 8, 23, 12


class RemoteSlices(Struct):
    """Whole batches from cached chunks; an aborted transaction that spans several objects is named by each."""

    parts: Sequence[FileSlice]
    size_bytes: int
    next_offset: int
    aborted: Sequence[AbortedTransaction] = ()


class ChunkSlices:
    """Slices being collected from ``offset`` on: at most ``max_bytes``, one batch at least if ``min_one_batch``.

    ``end_offset`` is a batch border above ``offset``: what begins there is not taken. ``parts`` and ``size_bytes`` are what was taken, ``next_offset`` is where the next read goes on.
    """

    __slots__ = ("_end_offset", "_max_bytes", "_min_one_batch", "next_offset", "parts", "size_bytes")

    def __init__(self, offset: int, max_bytes: int, *, min_one_batch: bool, end_offset: int = LONG_MAX) -> None:
        self.parts: list[FileSlice] = []
        self.size_bytes = 0
        self.next_offset = offset
        self._max_bytes = max_bytes
        self._min_one_batch = min_one_batch
        self._end_offset = end_offset

    def add(self, chunk: CachedChunk, file: File, end_offset: int) -> bool:
        """Take what fits of a chunk, whose offsets end at ``end_offset``; whether the next chunk may follow.

        Raises `OSError`.
        """
        start = _batch_position(file, chunk, self.next_offset)
        room = self._max_bytes - self.size_bytes
        end, next_offset = chunk.length, end_offset
        if end_offset > self._end_offset:
            end, next_offset = _batch_position(file, chunk, self._end_offset), self._end_offset
        if end - start > room:
            end, next_offset = _cut(file, chunk, start, room, at_least_one=self._min_one_batch and not self.parts)
            if end <= start:
                return False
        if end > start:  # the offset may lie in a hole behind the last batch
            self.parts.append(FileSlice(file, chunk.start + start, end - start))
            self.size_bytes += end - start
        self.next_offset = next_offset
        return end == chunk.length


def _batch_position(file: File, chunk: CachedChunk, offset: int) -> int:
    """Where the batch begins that holds ``offset`` or follows it; the chunk's end if there is none."""
    at = chunk.position_before(offset)
    if chunk.begins_at(offset):
        return at  # where the read before this one was cut, as a rule
    while at < chunk.length:
        data = file.pread(min(_PROBE_BYTES, chunk.length - at), chunk.start + at)
        after = at
        for position, header in iter_headers(data):
            if header.next_offset > offset:
                return at + position
            after = at + position + header.size_bytes
        if after == at:  # the batch is longer than the probe
            header = read_header(data)
            if header.next_offset > offset:
                return at
            after = at + header.size_bytes
        at = after
    return chunk.length


def _cut(file: File, chunk: CachedChunk, start: int, room: int, *, at_least_one: bool) -> tuple[int, int]:
    """The last known batch border within ``room`` bytes of ``start``, and its offset; the first batch's end if must be."""
    index = bisect_right(chunk.positions, start + room) - 1
    if index >= 0 and chunk.positions[index] > start:
        return chunk.positions[index], chunk.offsets[index]
    if not at_least_one:
        return start, -1
    at = chunk.start + start
    size_bytes = int.from_bytes(file.pread(4, at + _LENGTH_AT), "big") + _LOG_OVERHEAD_BYTES
    delta = int.from_bytes(file.pread(4, at + _LAST_DELTA_AT), "big")
    return start + size_bytes, int.from_bytes(file.pread(8, at), "big") + delta + 1
