"""Resolves the options of a query to offsets of partitions and to bounds of its tasks. Pure.

The slices of objects and their tasks follow in `stratalog.tier.planning.slices`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from stratalog.spark.source.options import EARLIEST, LATEST, ReadOptions
from stratalog.tier.planning.slices import Limits, OffsetRange, PartitionArchive, SegmentSlice, task_limits
from stratalog.wire.errors import Invalid, StratalogError

__all__ = ["DataLoss", "FindTimestamp", "limits_of", "resolve_range"]

FindTimestamp: TypeAlias = Callable[[PartitionArchive, int], int | None]


class DataLoss(StratalogError):
    """Offsets that were asked for are not in the archive. With ``failOnDataLoss=false`` they are skipped."""


def resolve_range(archive: PartitionArchive, options: ReadOptions, find_timestamp: FindTimestamp) -> OffsetRange:
    """The offsets of one partition that the options ask for, cut to what the archive has.

    ``find_timestamp(archive, timestamp_ms)`` gives the first offset whose record is not older, or None. Raises
    `Invalid` for a start behind the end, and for a starting time behind the last record unless the option
    ``startingOffsetsByTimestampStrategy`` says ``latest``.
    """
    start, losses = _start(archive, options, find_timestamp)
    end, more = _end(archive, options, find_timestamp)
    if start > end and not more:
        raise Invalid(f"{archive.partition}: the starting offset {start} is greater than the ending offset {end}")
    return OffsetRange(start, max(start, end), losses + more)


def _start(
    archive: PartitionArchive, options: ReadOptions, find_timestamp: FindTimestamp
) -> tuple[int, tuple[str, ...]]:
    timestamp_ms = options.starting.timestamp_of(archive.partition)
    if timestamp_ms is not None:
        found = find_timestamp(archive, timestamp_ms)
        if found is None and not options.start_beyond_last_is_latest:
            raise Invalid(
                f"{archive.partition}: no record is as new as the starting timestamp {timestamp_ms}; set option "
                f"'startingOffsetsByTimestampStrategy' to 'latest' to read nothing from such a partition"
            )
        return archive.end_offset if found is None else found, ()
    offset = options.starting.offset_of(archive.partition)
    if offset == EARLIEST:
        return archive.log_start_offset, ()
    if offset == LATEST:
        return archive.end_offset, ()
    if offset < archive.log_start_offset:
        loss = (
            f"{archive.partition}: the starting offset {offset} is below the log start offset "
            f"{archive.log_start_offset}; the records between were removed by retention or DeleteRecords"
        )
        return archive.log_start_offset, (loss,)
    if offset > archive.end_offset:
        loss = (
            f"{archive.partition}: the starting offset {offset} is beyond offset {archive.end_offset}, where the "
            f"archive ends"
        )
        return archive.end_offset, (loss,)
    return offset, ()


def _end(archive: PartitionArchive, options: ReadOptions, find_timestamp: FindTimestamp) -> tuple[int, tuple[str, ...]]:
    timestamp_ms = options.ending.timestamp_of(archive.partition)
    if timestamp_ms is not None:
        found = find_timestamp(archive, timestamp_ms)
        return archive.end_offset if found is None else found, ()
    offset = options.ending.offset_of(archive.partition)
    if offset == LATEST:
        return archive.end_offset, ()
    if offset == EARLIEST:
        return archive.log_start_offset, ()
    if offset > archive.end_offset:
        loss = (
            f"{archive.partition}: the ending offset {offset} is beyond offset {archive.end_offset}, where the archive "
            f"ends; what is newer has not been uploaded by the broker yet"
        )
        return archive.end_offset, (loss,)
    if offset < archive.log_start_offset:
        loss = (
            f"{archive.partition}: the ending offset {offset} is below the log start offset {archive.log_start_offset}"
        )
        return archive.log_start_offset, (loss,)
    return offset, ()


def limits_of(slices: Iterable[SegmentSlice], options: ReadOptions, core_count: int) -> Limits:
    """How large a task may be by the options of the query."""
    return task_limits(
        slices,
        core_count,
        task_bytes_max=options.partition_bytes_max,
        task_records_max=options.partition_records_max,
        tasks_min=options.partitions_min,
    )
