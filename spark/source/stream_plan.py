"""How far the next micro-batch of a stream goes, and which offsets a given one reads. Pure.

The rules are those of Spark's Kafka source. Partitions that appear while a stream runs are read from their beginning.
Limits are spread over partitions in proportion to what waits in each. Planned offsets that are gone are a loss, reported
in words, which the caller raises or skips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from stratalog.spark.source.stream_offsets import Offsets
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.planning.slices import OffsetRange
from stratalog.wire.topic import TopicPartition

__all__ = [
    "DELAY_MS",
    "NO_LIMITS",
    "BatchLimits",
    "BatchRanges",
    "Reach",
    "Span",
    "Spans",
    "batch_ranges",
    "frozen",
    "next_end",
    "record_end",
]

DELAY_MS: Final = 15 * 60 * 1000


class Span(NamedTuple):
    """Offsets of a partition in the archive or with brokers: ``[log_start_offset, end_offset)``."""

    log_start_offset: int
    end_offset: int


Spans: TypeAlias = Mapping[TopicPartition, Span]
Reach: TypeAlias = Callable[[TopicPartition, int, int], int]
"""Where so many records of a partition end that begin at an offset: no less than so many offsets further on."""


class BatchLimits(Struct, frozen=True):
    """How many offsets a micro-batch should have. None is no limit.

    Fewer than ``offsets_min`` wait, but never longer than ``delay_ms_max`` after the batch before. ``offsets_max`` is
    kept but for partitions whose share would be less than one offset: they get one, so that none starves. Where
    compaction has left holes, it counts records instead, as `record_end` knows them.
    """

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_ms_max: int = DELAY_MS


NO_LIMITS: Final = BatchLimits()


class BatchRanges(NamedTuple):
    """Offsets that one micro-batch reads of each partition, none empty, and those it cannot read."""

    ranges: dict[TopicPartition, OffsetRange]
    losses: tuple[str, ...]


def _by_offsets(partition: TopicPartition, begin: int, count: int) -> int:
    del partition
    return begin + count


def next_end(
    start: Offsets, spans: Spans, limits: BatchLimits, waited_ms: int, reach: Reach = _by_offsets
) -> dict[TopicPartition, int]:
    """Where the micro-batch that begins at ``start`` ends; ``start`` itself if there is nothing, or not enough yet.

    ``waited_ms`` is how long ago the batch before was let go. Partitions that are gone are in the end no more, and
    one that is shorter than it was ends where it ends now: `batch_ranges` tells both as losses. ``reach`` is asked
    where a limit ends the micro-batch inside a partition.
    """
    begins = {partition: _begin(start.get(partition), span) for partition, span in spans.items()}
    waiting = {partition: span.end_offset - begins[partition] for partition, span in spans.items()}
    total = sum(waiting.values())
    if limits.offsets_min is not None and total < limits.offsets_min and waited_ms < limits.delay_ms_max:
        return dict(start)
    if limits.offsets_max is None or total <= limits.offsets_max:
        return {partition: span.end_offset for partition, span in spans.items()}
    ends = {}
    for partition, count in waiting.items():
        share, begin = max(1, limits.offsets_max * count // total), begins[partition]
        ends[partition] = begin + count if share >= count else min(begin + count, reach(partition, begin, share))
    return ends


def record_end(entries: Iterable[Entry], begin: int, count: int) -> int:
    """Where ``count`` records end that begin at ``begin``, by what ``entries`` of the manifest say.

    Inside an object that compaction has left holes in, records are taken to be spread evenly: a billion offsets that hold
    ten records are passed in ten steps at most, however few are asked for. Else it is ``count`` offsets.
    """
    at = begin
    for entry in entries:
        first = max(at, entry.base)
        if first >= entry.end:
            continue
        offset_count = entry.end - entry.base
        record_count = min(entry.record_count, offset_count)
        there = -(-(entry.end - first) * record_count // offset_count)
        if there > count:
            return first + -(-count * offset_count // record_count)
        at, count = entry.end, count - there
    return at + count


def _begin(offset: int | None, span: Span) -> int:
    """The first offset that there is to read from ``offset`` on; a new partition, None, is read from its beginning."""
    if offset is None:
        return span.log_start_offset
    return min(max(offset, span.log_start_offset), span.end_offset)


def frozen(spans: Spans, ends: Offsets) -> dict[TopicPartition, Span]:
    """``spans`` as if nothing had come after ``ends``, and no partition that ``ends`` does not name."""
    return {
        partition: Span(min(span.log_start_offset, ends[partition]), min(span.end_offset, ends[partition]))
        for partition, span in spans.items()
        if partition in ends
    }


def batch_ranges(start: Offsets, end: Offsets, spans: Spans) -> BatchRanges:
    """Offsets that the micro-batch from ``start`` to ``end`` reads. The same three give the same answer, whenever asked."""
    ranges: dict[TopicPartition, OffsetRange] = {}
    losses = [_gone(partition, start[partition]) for partition in sorted(start) if partition not in end]
    for partition in sorted(end):
        offset, until = start.get(partition), end[partition]
        span = spans.get(partition)
        if span is None:
            losses += [] if offset == until else [_gone(partition, offset or 0)]
            continue
        losses += _losses(partition, offset, until, span)
        begin = span.log_start_offset if offset is None else max(offset, span.log_start_offset)
        if begin < min(until, span.end_offset):
            ranges[partition] = OffsetRange(begin, min(until, span.end_offset))
    return BatchRanges(ranges, tuple(losses))


def _losses(partition: TopicPartition, offset: int | None, until: int, span: Span) -> list[str]:
    """Missing offsets of one partition between ``offset`` (None: it is new) and ``until``."""
    if offset is None and span.log_start_offset:
        new = (
            f"{partition} is new to this stream and starts at offset {span.log_start_offset} instead of 0: its first "
            f"records are in the archive no more, or never were"
        )
        return [new]
    losses = []
    begin = offset or 0
    if begin > until:
        losses.append(
            f"{partition} ended at offset {until} when this stream had come to {begin}: the topic was made again, the "
            f"archive set back, or brokers named to it no more whose records are not archived yet"
        )
    elif begin < span.log_start_offset and begin < until:
        losses.append(
            f"{partition}: the offsets {begin} to {min(until, span.log_start_offset) - 1} were removed by retention or "
            f"DeleteRecords before this stream read them"
        )
    if span.end_offset < until and begin < until:
        losses.append(
            f"{partition} ends at offset {span.end_offset}, and this stream was to read up to {until - 1}: the topic was "
            f"made again, the archive set back, or brokers named to it no more whose records are not archived yet"
        )
    return losses


def _gone(partition: TopicPartition, offset: int) -> str:
    return (
        f"{partition} is gone from the archive, or from what this stream reads, at offset {offset}: was its topic "
        f"deleted, or an option changed?"
    )
