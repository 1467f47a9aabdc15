"""The tasks of one read, from the manifests as they are now: what `planner` decides, applied to a bucket.

Nothing here imports PySpark: `stratalog.open` and jobs without Spark plan the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from stratalog.spark.archive import find_timestamp, load_partitions
from stratalog.spark.options import OffsetBound, ReadOptions
from stratalog.spark.planner import DataLoss, limits_of, resolve_range
from stratalog.tier.slices import OffsetRange, PartitionArchive, SegmentSlice, cut_slices, group_tasks
from stratalog.tier.store import ObjectStore
from stratalog.wire.errors import Invalid

__all__ = ["plan", "plan_ranges", "plan_slices"]

_THREADS: Final = 16

_logger = logging.getLogger("stratalog.spark")


def plan(store: ObjectStore, options: ReadOptions, core_count: int) -> list[tuple[SegmentSlice, ...]]:
    """The tasks of one query over what ``store`` holds now.

    Raises `DataLoss` for offsets that were asked for and are gone, unless ``failOnDataLoss`` is false, and `Invalid`
    for topics, partitions and offsets that do not fit the archive.
    """
    slices = plan_slices(store, options)
    return group_tasks(slices, limits_of(slices, options, core_count))


def plan_slices(store: ObjectStore, options: ReadOptions) -> list[SegmentSlice]:
    """The parts of objects that a query reads, by topic, partition and offset; raises what `plan` raises."""
    slices: list[SegmentSlice] = []
    losses: list[str] = []
    for archive, offsets in plan_ranges(store, options):
        found, holes = cut_slices(archive, offsets)
        slices += found
        losses += holes
    _tell(losses, fail=options.fail_on_data_loss)
    return slices


def plan_ranges(store: ObjectStore, options: ReadOptions) -> list[tuple[PartitionArchive, OffsetRange]]:
    """What is archived of each partition that a query reads, and which offsets of it; raises what `plan` raises."""
    archives = load_partitions(store, options.subscription)
    _check_named(options.starting, "startingOffsets", archives, options)
    _check_named(options.ending, "endingOffsets", archives, options)
    find = partial(
        find_timestamp,
        store,
        skip_damage=options.bad_records_url is not None,
        skip_loss=not options.fail_on_data_loss,
    )
    resolve = partial(resolve_range, options=options, find_timestamp=find)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-plan") as pool:
        ranges: list[OffsetRange] = list(pool.map(resolve, archives))
    _tell([loss for each in ranges for loss in each.losses], fail=options.fail_on_data_loss)
    return list(zip(archives, ranges, strict=True))


def _check_named(bound: OffsetBound, name: str, archives: Sequence[PartitionArchive], options: ReadOptions) -> None:
    """Offsets must be for partitions that are read; with ``strictOffsets`` all of those must have one."""
    read = {archive.partition for archive in archives}
    named = bound.named()
    foreign = sorted(named - read)
    if foreign:
        raise Invalid(
            f"option '{name}' names {foreign[0]}, which is not among the partitions that are read: "
            f"{', '.join(map(str, sorted(read))) or 'none'}"
        )
    missing = sorted(read - named)
    if options.strict_offsets and named and missing:
        raise Invalid(f"option '{name}' names no offset for {missing[0]}, and 'strictOffsets' is true")


def _tell(losses: Sequence[str], *, fail: bool) -> None:
    if losses and fail:
        more = f" (and {len(losses) - 1} more)" if len(losses) > 1 else ""
        raise DataLoss(f"{losses[0]}{more}. To read what there is, set option 'failOnDataLoss' to 'false'")
    for loss in losses:
        _logger.warning("%s; skipped, because failOnDataLoss is false", loss)
