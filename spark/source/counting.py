"""Counting rows without decoding them: from the manifest where it is enough, else from the headers of batches.

For an object that is read whole, its manifest entry says how many records it holds; control batches, which hold one
marker each, are no rows. For a plain object that is read in part the offsets are the count. The rest are objects
with aborted transactions, and compacted ones that are read in part or hold markers: their batches' headers are read,
and the records of a batch only where a border cuts it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from stratalog.spark.archive_store import open_archive
from stratalog.spark.source.fetch import ReadRequest, open_quarantine, read_slices
from stratalog.spark.source.hot_tail import read_hot_slices
from stratalog.spark.source.options import ReadOptions
from stratalog.spark.source.planner import limits_of
from stratalog.spark.source.quarantine import Quarantine
from stratalog.spark.source.read_lease import LeaseTicket, keep_lease, leased
from stratalog.spark.source.read_plan import PlannedRange, plan_ranges
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.planning.slices import SegmentSlice, group_tasks, slice_entry
from stratalog.tier.stores.store import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Counted", "count_archive", "count_manifest", "count_slices"]

_DRIVER_BYTES_MAX: Final = 64 << 20
"""So much is looked at on the driver: a Spark job costs more."""
_SLICE_DDL: Final = ", ".join(
    f"{name} {'string' if name in {'topic', 'key'} else 'bigint'}" for name in SegmentSlice._fields
)


class Counted(NamedTuple):
    """Rows that the manifests tell, and the slices that have to be looked at for the others."""

    rows: int
    slices: list[SegmentSlice]


def count_manifest(ranges: Iterable[PlannedRange], *, read_committed: bool) -> Counted:
    """The manifests' statement about the rows in these offsets."""
    rows = 0
    slices: list[SegmentSlice] = []
    for planned in ranges:
        archive, offsets = planned.archive, planned.archived
        for entry in archive.entries:
            start, end = max(offsets.start, entry.base), min(offsets.end, entry.end)
            if start >= end:
                continue
            known = _rows(entry, end - start, read_committed=read_committed)
            if known is None:
                slices.append(slice_entry(archive.partition, entry, offsets))
            else:
                rows += known
    return Counted(rows, slices)


def _rows(entry: Entry, offset_count: int, *, read_committed: bool) -> int | None:
    """The rows in so many offsets of an object; None where its entry does not tell."""
    if entry.aborted_count and read_committed:
        return None
    if entry.compacted and entry.control_batch_count:
        return None  # the cleaner keeps emptied control batches: how many hold a marker is unknown
    if offset_count == entry.end - entry.base:
        return entry.record_count - entry.control_batch_count
    return None if entry.compacted or entry.control_batch_count else offset_count


def count_slices(slices: Sequence[SegmentSlice], options: ReadOptions) -> int:
    """The rows of ``slices``, by the headers of their batches. Raises what `read_slices` raises."""
    store = open_archive(options.archive, options.store_options)
    return sum(batch.num_rows for batch in read_slices(store, slices, _request(options), _quarantine(options)))


def _quarantine(options: ReadOptions) -> Quarantine | None:
    url = options.bad_records_url
    return open_quarantine(url, options.store_options) if url else None


def _request(options: ReadOptions) -> ReadRequest:
    """The cheapest column: headers tell all of it."""
    return ReadRequest(
        ("partition",), read_committed=options.read_committed, fail_on_data_loss=options.fail_on_data_loss
    )


def count_archive(spark: SparkSession, options: ReadOptions) -> int:
    """The rows that a read with these options has; a Spark job where there is much to look at.

    Raises what a read raises, but a damaged or missing object is only noticed where it has to be looked at.
    """
    store = open_archive(options.archive, options.store_options)
    with leased(store, options.lease_ms) as lease:
        return _count(spark, store, options, lease)


def _count(spark: SparkSession, store: ObjectStore, options: ReadOptions, lease: LeaseTicket | None) -> int:
    ranges = plan_ranges(store, options)
    rows, slices = count_manifest(ranges, read_committed=options.read_committed)
    hot = [each.hot for each in ranges if each.hot is not None]
    if hot and options.hot_tail is not None:
        found = read_hot_slices(options.hot_tail, hot, _request(options), _quarantine(options))
        rows += sum(batch.num_rows for batch in found)
    if sum(each.read_bytes for each in slices) <= _DRIVER_BYTES_MAX:
        return rows + (count_slices(slices, options) if slices else 0)
    tasks = group_tasks(slices, limits_of(slices, options, os.cpu_count() or 1))
    pieces = spark.createDataFrame([tuple(each) for task in tasks for each in task], _SLICE_DDL)
    counted = pieces.repartition(len(tasks)).mapInArrow(_counter(options, lease), "rows bigint")
    return rows + sum(int(row.rows) for row in counted.collect())


def _counter(
    options: ReadOptions, lease: LeaseTicket | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    return partial(_count_batches, options, lease)


def _count_batches(
    options: ReadOptions, lease: LeaseTicket | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One task of the job: rows are slices, the answer is their number of rows."""
    keep_lease(open_archive(options.archive, options.store_options), lease)
    slices = [SegmentSlice(**row) for batch in batches for row in batch.to_pylist()]
    yield pa.RecordBatch.from_pydict({"rows": pa.array([count_slices(slices, options)], pa.int64())})
