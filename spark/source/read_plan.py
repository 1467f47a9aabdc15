"""The tasks of one read, from the manifests as they are now: what `planner` decides, applied to a bucket.

This file does not import PySpark: `stratalog.open` and jobs without Spark plan the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from stratalog.client.link import BrokerAway
from stratalog.spark.environment.garbage_pause import garbage_pause
from stratalog.spark.source.archive import find_timestamp, load_partitions
from stratalog.spark.source.hot_tail import HotSlice, HotTail, group_hot, no_answer, open_client
from stratalog.spark.source.options import OffsetBound, ReadOptions
from stratalog.spark.source.parquet_plan import ParquetSlice, group_files, split_range, usable_spans
from stratalog.spark.source.planner import DataLoss, FindTimestamp, limits_of, resolve_range
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive, SegmentSlice, cut_slices, group_tasks
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import Invalid, KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["PlannedRange", "Task", "plan", "plan_ranges", "plan_slices", "resolve_starts", "slices_of", "tell"]

_THREADS: Final = 16

_logger = logging.getLogger("stratalog.spark")


Task: TypeAlias = tuple[SegmentSlice, ...] | tuple[HotSlice, ...] | tuple[ParquetSlice, ...]


class PlannedRange(NamedTuple):
    """The archive of one partition, and the offsets to read, which may go beyond it."""

    archive: PartitionArchive
    offsets: OffsetRange

    @property
    def archived(self) -> OffsetRange:
        """The offsets that are read from the archive."""
        return self.offsets._replace(end=min(self.offsets.end, self.archive.end_offset))

    @property
    def hot(self) -> HotSlice | None:
        """The offsets that are asked of a broker, if there are any."""
        start = max(self.offsets.start, self.archive.end_offset)
        if start >= self.offsets.end:
            return None
        return HotSlice(*self.archive.partition, start, self.offsets.end, self.archive.topic_id)


@garbage_pause()
def plan(store: ObjectStore, options: ReadOptions, core_count: int) -> list[Task]:
    """The tasks of one query over what ``store``, and with ``hotTail`` the brokers, hold now.

    Raises `DataLoss` for offsets that were asked for and are gone, unless ``failOnDataLoss`` is false, `Invalid`
    for topics, partitions and offsets that do not fit the archive, and `Retriable` for brokers that do not answer.
    """
    ranges = plan_ranges(store, options)
    files: list[ParquetSlice] = []
    if options.converted is not None:
        files, ranges = _without_converted(ranges, options)
    slices = slices_of(ranges, options)
    hot = [each.hot for each in ranges if each.hot is not None]
    return [
        *group_files(files, core_count, options.partition_bytes_max),
        *group_tasks(slices, limits_of(slices, options, core_count)),
        *group_hot(hot, core_count, options.partition_records_max),
    ]


def _without_converted(
    ranges: Sequence[PlannedRange], options: ReadOptions
) -> tuple[list[ParquetSlice], list[PlannedRange]]:
    """Converted rows as files, and the rest for the archive and the brokers."""
    spans = usable_spans(options, [each.archive for each in ranges])
    files: list[ParquetSlice] = []
    left: list[PlannedRange] = []
    for each in ranges:
        parts = split_range(each.archive.partition, each.offsets, spans.get(each.archive.partition, ()))
        files += parts.files
        left += [PlannedRange(each.archive, offsets) for offsets in parts.left]
    return files, left


@garbage_pause()
def plan_slices(store: ObjectStore, options: ReadOptions) -> list[SegmentSlice]:
    """The parts of objects that a query reads, by topic, partition and offset; raises what `plan` raises.

    Only of what is archived: `Invalid` for options that ask brokers for more.
    """
    if options.hot_tail is not None:
        raise Invalid("only archives are read here, no brokers: set option 'hotTail' to 'false'")
    return slices_of(plan_ranges(store, options), options)


def slices_of(ranges: Iterable[PlannedRange], options: ReadOptions) -> list[SegmentSlice]:
    """The parts of objects that hold what is archived of ``ranges``. Raises `DataLoss` as `plan` does."""
    slices: list[SegmentSlice] = []
    losses: list[str] = []
    for each in ranges:
        found, holes = cut_slices(each.archive, each.archived)
        slices += found
        losses += holes
    tell(losses, fail=options.fail_on_data_loss)
    return slices


def plan_ranges(store: ObjectStore, options: ReadOptions) -> list[PlannedRange]:
    """For each partition of a query its archive, and the offsets to read; raises what `plan` raises."""
    if options.hot_tail is None:
        archives = load_partitions(store, options.subscription, named=_named(options))
        return _resolve(archives, archives, options, _finder(store, options))
    try:
        with open_client(options.hot_tail) as client:
            return _with_tail(store, options, HotTail(client, read_committed=options.read_committed))
    except (BrokerAway, KafkaError) as error:
        raise no_answer(options.hot_tail, error) from error


def resolve_starts(
    store: ObjectStore, options: ReadOptions, archives: Sequence[PartitionArchive], tail: HotTail | None = None
) -> dict[TopicPartition, int]:
    """Where a stream over ``archives``, which may go on behind what is archived, begins; raises what `plan` raises."""
    ranges = _resolve(archives, archives, options, _finder(store, options, tail))
    return {each.archive.partition: each.offsets.start for each in ranges}


def _with_tail(store: ObjectStore, options: ReadOptions, tail: HotTail) -> list[PlannedRange]:
    partitions = tail.find(options.subscription)
    archives = load_partitions(store, options.subscription, partitions, _named(options))
    # Only now, when it is known where each archive ends: nothing can fall between the two.
    archives, logs = tail.extend(archives, tail.logs(partitions))
    return _resolve(archives, logs, options, _finder(store, options, tail))


def _named(options: ReadOptions) -> frozenset[TopicPartition]:
    return options.starting.named() | options.ending.named()


def _finder(store: ObjectStore, options: ReadOptions, tail: HotTail | None = None) -> FindTimestamp:
    in_archive = partial(
        find_timestamp,
        store,
        skip_damage=options.bad_records_url is not None,
        skip_loss=not options.fail_on_data_loss,
    )

    def find(log: PartitionArchive, timestamp_ms: int) -> int | None:
        found = in_archive(log, timestamp_ms)
        return tail.find_timestamp(log, timestamp_ms) if found is None and tail is not None else found

    return find


def _resolve(
    archives: Sequence[PartitionArchive], logs: Sequence[PartitionArchive], options: ReadOptions, find: FindTimestamp
) -> list[PlannedRange]:
    """The offsets to read; ``logs`` are the archives as far as the partitions go on elsewhere."""
    _check_named(options.starting, "startingOffsets", archives, options)
    _check_named(options.ending, "endingOffsets", archives, options)
    resolve = partial(resolve_range, options=options, find_timestamp=find)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-plan") as pool:
        ranges: list[OffsetRange] = list(pool.map(resolve, logs))
    tell([loss for each in ranges for loss in each.losses], fail=options.fail_on_data_loss)
    return [PlannedRange(archive, offsets) for archive, offsets in zip(archives, ranges, strict=True)]


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


def tell(losses: Sequence[str], *, fail: bool) -> None:
    """Raise `DataLoss` for what is missing, or warn of each where that is accepted."""
    if losses and fail:
        more = f" (and {len(losses) - 1} more)" if len(losses) > 1 else ""
        raise DataLoss(f"{losses[0]}{more}. To read what there is, set option 'failOnDataLoss' to 'false'")
    for loss in losses:
        _logger.warning("%s; skipped, because failOnDataLoss is false", loss)
