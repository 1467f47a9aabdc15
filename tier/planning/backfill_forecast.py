"""Forecasts the requests of a read of whole partitions straight from the bucket. Pure.

The slices and tasks are those that `stratalog.tier.planning.slices` makes for Spark; each piece of a task costs the tail of
its object, and its chunks by runs, unless the object is so small that it comes whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from stratalog.tier.manifests.entry import Entry
from stratalog.tier.objects.chunk_table import ChunkTable
from stratalog.tier.objects.even_table import even_table
from stratalog.tier.planning.prices import NOTHING_USED, Usage
from stratalog.tier.planning.slices import (
    WHOLE_BYTES_MAX,
    OffsetRange,
    PartitionArchive,
    SegmentSlice,
    chunk_runs,
    cut_slices,
    group_tasks,
    tail_bytes,
    task_limits,
)
from stratalog.wire.topic import TopicPartition

__all__ = ["TASK_BYTES", "BackfillForecast", "forecast_backfill", "piece_usage", "table_by_entry"]

TASK_BYTES = 256 << 20
"""Default of the option maxPartitionBytes of the Spark source."""

TableOf = Callable[[Entry], ChunkTable]


class BackfillForecast(Struct):
    """One partition's share: ``usage`` without the manifest, which the driver has read by then."""

    partition: TopicPartition
    start: int
    end: int
    objects: int = 0
    data_bytes: int = 0
    usage: Usage = NOTHING_USED


def table_by_entry(entry: Entry) -> ChunkTable:
    """An object's chunk table as far as the manifest tells: no request."""
    return even_table(entry.base, entry.end, entry.data_bytes, entry.chunks_bytes)


def forecast_backfill(
    archives: Sequence[PartitionArchive],
    *,
    core_count: int,
    task_bytes: int = TASK_BYTES,
    table_of: TableOf = table_by_entry,
) -> tuple[list[BackfillForecast], int]:
    """Cost of reading all live offsets of ``archives``, a partition each, and the number of tasks that Spark makes."""
    forecasts = {
        one.partition: BackfillForecast(one.partition, one.log_start_offset, one.end_offset) for one in archives
    }
    entries = {entry.key: entry for one in archives for entry in one.entries}
    slices: list[SegmentSlice] = []
    for archive in archives:
        mine, _ = cut_slices(archive, OffsetRange(archive.log_start_offset, archive.end_offset))
        slices += mine
        forecasts[archive.partition].objects = len(mine)
    tasks = group_tasks(slices, task_limits(slices, core_count, task_bytes_max=task_bytes))
    tables: dict[str, ChunkTable] = {}
    for piece in (piece for task in tasks for piece in task):
        if piece.key not in tables:
            tables[piece.key] = table_of(entries[piece.key])
        found = forecasts[piece.topic_partition]
        found.usage += piece_usage(piece, tables[piece.key])
        found.data_bytes += piece.read_bytes
    return list(forecasts.values()), len(tasks)


def piece_usage(piece: SegmentSlice, table: ChunkTable) -> Usage:
    """Requests for reading one slice, by the object's chunk table or an even one."""
    sizes = [tail_bytes(piece)]
    if piece.size_bytes > WHOLE_BYTES_MAX:
        sizes += (sum(chunk.length for chunk in run) for run in chunk_runs(table, piece))
    return _gets(sizes)


def _gets(sizes: Iterable[int]) -> Usage:
    known = list(sizes)
    return Usage(reads=len(known), received_bytes=sum(known))
