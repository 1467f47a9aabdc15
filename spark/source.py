"""``format("stratalog")``: PySpark's Python data source over planner, fetch and decode. Batch reads.

The driver's Python workers run `StratalogSource` and `StratalogReader.partitions`, executors run
`StratalogReader.read`; between them travel pickles of the options and of one task's slices.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from stratalog.spark.archive import find_timestamp, load_partitions
from stratalog.spark.fetch import ReadRequest, open_archive, read_slices
from stratalog.spark.options import OffsetBound, ReadOptions, parse_options
from stratalog.spark.planner import DataLoss, limits_of, resolve_range
from stratalog.spark.read_lease import LeaseTicket, keep_lease, take_lease
from stratalog.spark.schema import check_columns, spark_ddl
from stratalog.tier.slices import OffsetRange, PartitionArchive, SegmentSlice, cut_slices, group_tasks
from stratalog.tier.store import ObjectStore
from stratalog.wire.errors import Invalid

__all__ = ["FORMAT", "LeasedTask", "StratalogReader", "StratalogSource", "plan"]

FORMAT: Final = "stratalog"
_THREADS: Final = 16

_logger = logging.getLogger("stratalog.spark")


class StratalogSource(DataSource):
    """The data source. Options are described in `stratalog.spark.options`; wrong ones raise `Invalid` at ``load``."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._parsed = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """The columns of Spark's Kafka source, or those of the option ``columns``."""
        return spark_ddl(self._parsed.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns of ``schema``, which a user's ``.schema(...)`` may have narrowed."""
        columns = check_columns([(each.name, each.dataType.simpleString()) for each in schema.fields])
        required = frozenset(each.name for each in schema.fields if not each.nullable)
        return StratalogReader(self._parsed, columns, required)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's name
        """Raise `Invalid`: there is no streaming yet."""
        del schema
        raise Invalid(
            "format 'stratalog' reads in batches only in this release: use spark.read, or read the newest records "
            "with readStream.format('kafka') from the brokers"
        )

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raise `Invalid`: an archive is written by brokers alone."""
        del schema, overwrite
        raise Invalid("format 'stratalog' cannot write: an archive is written by its brokers; produce to them instead")


class LeasedTask(InputPartition):
    """The slices of one task, and the lease under which they were planned."""

    def __init__(self, value: tuple[SegmentSlice, ...], lease: LeaseTicket | None) -> None:
        super().__init__(value)
        self.lease = lease


class StratalogReader(DataSourceReader):
    """Plans on the driver, reads in executors.

    It takes no filters from Spark: Spark 4.3 keeps the plan made for the last filters pushed and uses it for every
    other scan of the same DataFrame too, which then misses rows. Time and offset options prune instead.
    """

    def __init__(self, options: ReadOptions, columns: tuple[str, ...], required: frozenset[str]) -> None:
        self._options = options
        self._columns = columns
        self._required = required

    def partitions(self) -> list[InputPartition]:
        """One element per task."""
        store = open_archive(self._options.archive, self._options.store_options)
        lease = take_lease(store, self._options.lease_ms) if self._options.lease_ms else None  # before any manifest
        return [LeasedTask(task, lease) for task in plan(store, self._options, os.cpu_count() or 1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. A plan without tasks comes back as one whose value is None."""
        if partition.value is None:
            return iter(())
        store = open_archive(self._options.archive, self._options.store_options)
        keep_lease(store, getattr(partition, "lease", None))
        request = ReadRequest(
            columns=self._columns,
            required=self._required,
            batch_bytes=self._options.batch_bytes,
            read_committed=self._options.read_committed,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        return read_slices(store, partition.value, request)


def plan(store: ObjectStore, options: ReadOptions, core_count: int) -> list[tuple[SegmentSlice, ...]]:
    """The tasks of one query over what ``store`` holds now.

    Raises `DataLoss` for offsets that were asked for and are gone, unless ``failOnDataLoss`` is false, and `Invalid`
    for topics, partitions and offsets that do not fit the archive.
    """
    archives = load_partitions(store, options.subscription)
    _check_named(options.starting, "startingOffsets", archives, options)
    _check_named(options.ending, "endingOffsets", archives, options)
    resolve = partial(resolve_range, options=options, find_timestamp=partial(find_timestamp, store))
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-plan") as pool:
        ranges: list[OffsetRange] = list(pool.map(resolve, archives))
    slices: list[SegmentSlice] = []
    losses: list[str] = []
    for archive, offsets in zip(archives, ranges, strict=True):
        found, holes = cut_slices(archive, offsets)
        slices += found
        losses += [*offsets.losses, *holes]
    _tell(losses, fail=options.fail_on_data_loss)
    return group_tasks(slices, limits_of(slices, options, core_count))


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
