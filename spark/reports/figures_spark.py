"""The job behind `stratalog stats`: tasks add up what they decode, Spark adds up what tasks hand on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.storagelevel import StorageLevel

from stratalog.spark.archive_store import open_archive
from stratalog.spark.reports.figures import (
    PARTS,
    SUMS,
    Edge,
    Figures,
    Keys,
    Missing,
    figures,
    missing_between,
    sum_slices,
)
from stratalog.spark.source.options import ReadOptions
from stratalog.spark.source.planner import limits_of
from stratalog.spark.source.read_lease import LeaseTicket, leased
from stratalog.spark.source.read_plan import PlannedRange, plan_ranges, slices_of
from stratalog.tier.planning.slices import SegmentSlice, group_tasks
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

__all__ = ["archive_stats"]

_TYPES: Final = {pa.string(): "string", pa.binary(): "binary", pa.int32(): "int", pa.int64(): "bigint"}
_PARTS_DDL: Final = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in PARTS)
_KEYS_ERROR: Final = 0.02


def archive_stats(spark: SparkSession, options: ReadOptions, by: Sequence[str], keys: Keys) -> list[Figures]:
    """Figures of what a read with these options has, by topic and ``by`` (``partition``, ``day``).

    `Keys.EXACT` sends every distinct key of a group through Spark's shuffle once; `Keys.APPROXIMATE` (2 % off or less,
    most times) and `Keys.NONE` send none. Raises what a read raises.
    """
    if options.hot_tail is not None or options.values.decoded():
        raise Invalid("hotTail, keyFormat and valueFormat are not for figures of an archive: leave them out")
    store = open_archive(options.archive, options.store_options)
    with leased(store, options.lease_ms) as lease:
        return _figures(spark, plan_ranges(store, options), options, by, keys, lease)


def _figures(
    spark: SparkSession,
    ranges: Sequence[PlannedRange],
    options: ReadOptions,
    by: Sequence[str],
    keys: Keys,
    lease: LeaseTicket | None,
) -> list[Figures]:
    slices = slices_of(ranges, options)
    sums: list[Row] = []
    edges: dict[TopicPartition, list[Edge]] = {}
    if slices:
        tasks = group_tasks(slices, limits_of(slices, options, os.cpu_count() or 1))
        shipped = spark.sparkContext.broadcast(tasks)
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        with_keys = keys is not Keys.NONE
        parts = numbers.mapInArrow(partial(_add_up, shipped, options, lease, with_keys), _PARTS_DDL)
        parts = parts.persist(StorageLevel.DISK_ONLY)  # it is asked twice
        try:
            for row in parts.where("last_day is not null").collect():
                edge = Edge(row.first_offset, row.day, row.last_offset, row.last_day)
                edges.setdefault(TopicPartition(row.topic, row.partition), []).append(edge)
            sums = _summed(parts.where("last_day is null"), ["topic", *by], keys).collect()
        finally:
            parts.unpersist()
            shipped.destroy()
    missing: dict[TopicPartition, dict[int | None, Missing]] = {
        each.archive.partition: missing_between(*each.archived[:2], edges.get(each.archive.partition, ()))
        for each in ranges
    }
    return figures((row.asDict() for row in sums), missing, by, keys)


def _add_up(
    shipped: Broadcast[list[tuple[SegmentSlice, ...]]],
    options: ReadOptions,
    lease: LeaseTicket | None,
    with_keys: bool,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """In executors: rows are numbers of tasks."""
    for batch in batches:
        for index in batch.column(0).to_pylist():
            yield from sum_slices(shipped.value[index], options, lease, with_keys=with_keys)


def _summed(parts: DataFrame, by: list[str], keys: Keys) -> DataFrame:
    sums = [F.sum(name).alias(name) for name in SUMS]
    ends = [F.min(name).alias(name) for name in ("first_offset", "first_timestamp_us")]
    ends += [F.max(name).alias(name) for name in ("last_offset", "last_timestamp_us")]
    if keys is Keys.NONE:
        return parts.groupBy(*by).agg(*sums, *ends)
    if keys is Keys.APPROXIMATE:
        return parts.groupBy(*by).agg(*sums, *ends, F.approx_count_distinct("key", _KEYS_ERROR).alias("keys"))
    one_a_key = parts.groupBy(*by, "key").agg(*sums, *ends)
    return one_a_key.groupBy(*by).agg(*sums, *ends, F.count("key").alias("keys"))
