"""The requests to the bucket that a Kafka client's read of the archive will cause, before it happens. Pure.

One reader goes through the same planning as a real one (`RemoteLog.plan_fetch`, `RemoteStream`, `ReadAhead`,
`group_neighbours`), with a cache that holds nothing of it yet and has room for what it reads ahead; what it would want
is counted instead of fetched. So chunks that are read ahead of its end count too: they are fetched although perhaps no
reader comes for them. A cache of a few chunks, or one that others fill, costs more: chunks are then fetched twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from stratalog.broker.cold.stream import RemoteStream
from stratalog.tier.manifests.view import RemoteSegment
from stratalog.tier.objects.chunk_table import ChunkTable
from stratalog.tier.objects.even_table import even_table
from stratalog.tier.objects.footer import SUFFIX_BYTES
from stratalog.tier.objects.segment_blobs import ABORTED_BYTES
from stratalog.tier.planning.prices import Usage
from stratalog.tier.reading.readahead import ReadAhead
from stratalog.tier.reading.remote_log import ChunkId, ChunkRef, RemoteLog, group_neighbours

__all__ = ["FetchForecast", "TableOf", "forecast_fetch", "table_by_manifest"]

TableOf = Callable[[RemoteSegment], ChunkTable]
_READER: Final = "forecast"


class FetchForecast(Struct):
    """The offsets ``[start, end)`` that a reader gets, ``delivered_bytes`` of them, and what that costs in requests.

    ``chunk_gets`` bring ``chunk_bytes``, including ``ahead_bytes`` that lie behind ``end``; ``tail_gets`` bring chunk
    tables and aborted transactions. Reading the manifest, if the broker has not done so yet, is ``manifest_gets``.
    """

    start: int
    end: int
    delivered_bytes: int = 0
    objects: int = 0
    manifest_gets: int = 0
    manifest_bytes: int = 0
    tail_gets: int = 0
    tail_bytes: int = 0
    chunk_gets: int = 0
    chunk_bytes: int = 0
    ahead_bytes: int = 0

    @property
    def usage(self) -> Usage:
        """As a store bills it."""
        return Usage(
            reads=self.manifest_gets + self.tail_gets + self.chunk_gets,
            received_bytes=self.manifest_bytes + self.tail_bytes + self.chunk_bytes,
        )


def table_by_manifest(segment: RemoteSegment) -> ChunkTable:
    """An object's chunk table as far as the manifest tells: no request."""
    return even_table(segment.base, segment.end, segment.data_bytes, segment.chunks_bytes)


def forecast_fetch(
    remote: RemoteLog,
    start: int,
    end: int,
    *,
    answer_bytes: int,
    cache_bytes: int,
    delivered_bytes_max: int | None = None,
    table_of: TableOf = table_by_manifest,
) -> FetchForecast:
    """Read ``[start, end)`` in order, ``answer_bytes`` (more than a batch) at a time, up to ``delivered_bytes_max``.

    Both offsets are cut to what ``remote`` holds; it must hold no chunk table yet. ``table_of`` gives those.
    """
    start = max(start, remote.remote_start, remote.log_start_offset)
    end = min(end, remote.remote_end)
    walk = _Walk(remote, start, ReadAhead(cache_bytes), table_of)
    while walk.offset < end and (delivered_bytes_max is None or walk.forecast.delivered_bytes < delivered_bytes_max):
        walk.answer(answer_bytes)
    return walk.finished(end)


@dataclass(slots=True)
class _Walk:
    """Where the reader stands, and what was fetched for it."""

    remote: RemoteLog
    offset: int
    ahead: ReadAhead
    table_of: TableOf
    held: dict[ChunkId, ChunkRef] = field(default_factory=dict)
    forecast: FetchForecast = field(init=False)
    stream: RemoteStream = field(init=False)

    def __post_init__(self) -> None:
        self.forecast = FetchForecast(self.offset, self.offset)
        self.stream = RemoteStream(self.offset, 0)

    def answer(self, answer_bytes: int) -> None:
        """One answer to the reader, or one step towards it."""
        plan = self.remote.plan_fetch(self.offset, answer_bytes)
        if not plan.chunks:
            assert plan.missing_table is not None, "the offset is in the archive"
            self._read_table(plan.missing_table)
            return
        here: list[ChunkRef] = []
        for ref in plan.chunks:
            if ref.id not in self.held:
                break
            here.append(ref)
        if not here:
            self._fetch(self.stream.missing(self.remote, self.offset, plan.chunks[0], whole_gets=self.ahead.roomy))
            return
        self.stream.held = here
        next_offset = self._deliver(here, answer_bytes)
        wanted = self.ahead.on_read(_READER, self.offset, next_offset, 0)
        further = self.stream.ahead(self.remote, next_offset, wanted, whole_gets=self.ahead.roomy)
        if further is not None:
            if further.missing_table is not None:
                self._read_table(further.missing_table)
            self._fetch(further.chunks)
            self.stream.asked(further, wanted)
        self.offset = self.stream.next_offset = next_offset

    def _deliver(self, here: Sequence[ChunkRef], answer_bytes: int) -> int:
        """The offset behind an answer of so many bytes; offsets are taken to be spread evenly in a chunk."""
        room = answer_bytes
        for ref in here:
            span = ref.end_offset - ref.chunk.first_offset
            left = ref.end_offset - max(self.offset, ref.chunk.first_offset)
            left_bytes = max(1, ref.chunk.length * left // span)
            if left_bytes > room:
                taken = max(1, left * room // left_bytes)
                self.forecast.delivered_bytes += room
                return ref.end_offset - left + taken
            room -= left_bytes
            self.forecast.delivered_bytes += left_bytes
        return here[-1].end_offset

    def _fetch(self, refs: Iterable[ChunkRef]) -> None:
        wanted = [ref for ref in refs if ref.id not in self.held]
        for group in group_neighbours(wanted):
            self.forecast.chunk_gets += 1
            self.forecast.chunk_bytes += sum(ref.chunk.length for ref in group)
        self.held.update((ref.id, ref) for ref in wanted)

    def _read_table(self, segment: RemoteSegment) -> None:
        self.remote.add_table(segment.uuid, self.table_of(segment).to_bytes())
        self._tail(min(SUFFIX_BYTES, segment.size_bytes))
        self.forecast.objects += 1

    def _tail(self, size_bytes: int) -> None:
        self.forecast.tail_gets += 1
        self.forecast.tail_bytes += size_bytes

    def finished(self, end: int) -> FetchForecast:
        """The forecast, with the aborted transactions of what was read: two GETs an object that has any."""
        forecast = self.forecast
        forecast.end = min(self.offset, end)
        if forecast.end > forecast.start:
            for segment in self.remote.aborted_candidates(forecast.start, forecast.end):
                self._tail(min(SUFFIX_BYTES, segment.size_bytes))
                self._tail(segment.aborted_count * ABORTED_BYTES)
        forecast.ahead_bytes = sum(
            ref.chunk.length for ref in self.held.values() if ref.chunk.first_offset >= forecast.end
        )
        return forecast
