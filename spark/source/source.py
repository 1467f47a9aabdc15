"""``format("stratalog")``: PySpark's Python data source over planner, fetch and decode.

The driver's Python workers run `StratalogSource` and `StratalogReader.partitions`, executors run
`StratalogReader.read`; between them travel pickles of the options and of one task's slices.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from stratalog.spark.archive_store import open_archive
from stratalog.spark.environment.hadoop_settings import completed
from stratalog.spark.environment.worker_memory import freeze_modules, keep_freed_memory
from stratalog.spark.rows.schema import check_columns, spark_ddl
from stratalog.spark.source.fetch import ReadRequest, open_quarantine, read_slices
from stratalog.spark.source.hot_tail import HotSlice, read_hot_slices
from stratalog.spark.source.options import TOPIC_NAMES, ReadOptions, parse_options
from stratalog.spark.source.parquet_plan import ParquetSlice
from stratalog.spark.source.parquet_read import read_parquet_slices
from stratalog.spark.source.read_lease import (
    PARTS_MAX,
    LeaseTicket,
    finish_task,
    give_back,
    keep_lease,
    lease_if_needed,
)
from stratalog.spark.source.read_plan import Task, plan
from stratalog.spark.source.stream_options import parse_stream
from stratalog.spark.values.values import ReadColumns, resolve_values
from stratalog.wire.errors import Invalid

__all__ = ["FORMAT", "LeasedTask", "StratalogReader", "StratalogSource", "source_with"]

FORMAT: Final = "stratalog"
_NO_WRITER: Final = (
    "format 'stratalog' cannot write: an archive is written by its brokers; produce to them instead, with "
    ".format('kafka') and their address"
)


class StratalogSource(DataSource):
    """The data source. Options are described in `stratalog.spark.source.options`; wrong ones raise `Invalid` at ``load``."""

    s3a: ClassVar[Mapping[str, str]] = {}
    """The session's S3 settings in Hadoop's words when this was registered, see `source_with`."""

    def __init__(self, options: dict[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        url = given.get("archive") or given.get("path", "")
        super().__init__(completed(given, self.s3a, url) if self.s3a else given)
        # Whether it is read, streamed or written Spark tells later. Options of streams alone are checked then, and
        # options that name no topic may be those of a writer, who is to hear that there is none.
        self._parsed: ReadOptions | None = None
        if not TOPIC_NAMES.isdisjoint(given):
            self._parsed = parse_options(self.options, streaming=True)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """The columns of Spark's Kafka source, or those of the option ``columns``."""
        parsed = self._parsed or parse_options(self.options, streaming=True)
        formats = resolve_values(parsed.values)
        return spark_ddl(parsed.columns, formats.kinds() if formats else {})

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns of ``schema``, which a user's ``.schema(...)`` may have narrowed."""
        return _reader(parse_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's name
        """The same for ``readStream``."""
        from stratalog.spark.source.stream import StratalogStreamReader  # noqa: PLC0415 - it builds on this module

        options = parse_options(self.options, streaming=True)
        return StratalogStreamReader(options, parse_stream(self.options), _reader(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raise `Invalid`: an archive is written by brokers alone."""
        del schema, overwrite
        raise Invalid(_NO_WRITER)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802 - PySpark's name
        """The same for ``writeStream``."""
        self.writer(schema, overwrite)


def source_with(s3a: Mapping[str, str]) -> type[StratalogSource]:
    """A source that takes its access to S3 from ``s3a``, Hadoop's settings without ``fs.s3a.``, where options give none.

    It is a class of its own because classes are all that PySpark takes from a session to the processes that plan.
    """
    if not s3a:
        return StratalogSource
    return type("ConfiguredSource", (StratalogSource,), {"s3a": dict(s3a), "__doc__": StratalogSource.__doc__})


def _reader(options: ReadOptions, schema: StructType) -> StratalogReader:
    formats = resolve_values(options.values)
    given = [(each.name, each.dataType.simpleString()) for each in schema.fields]
    columns = check_columns(given, formats.kinds() if formats else {})
    required = frozenset(each.name for each in schema.fields if not each.nullable)
    return StratalogReader(options, ReadColumns(columns, required, formats))


class LeasedTask(InputPartition):
    """The slices of one task, and the lease under which they were planned.

    It is task number ``part`` of ``part_count``, which end the lease together; of 0 if they do not.
    """

    def __init__(self, value: Task, lease: LeaseTicket | None, part: int = 0, part_count: int = 0) -> None:
        super().__init__(value)
        self.lease = lease
        self.part = part
        self.part_count = part_count


class StratalogReader(DataSourceReader):
    """Plans on the driver, reads in executors.

    It takes no filters from Spark: Spark 4.3 keeps the plan made for the last filters pushed and uses it for every
    other scan of the same DataFrame too, which then misses rows. Time and offset options prune instead.
    """

    def __init__(self, options: ReadOptions, columns: ReadColumns) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """One element per task."""
        store = open_archive(self._options.archive, self._options.store_options)
        lease = lease_if_needed(store, self._options.lease_ms)  # before any manifest
        tasks: list[Task] = []
        try:
            tasks = plan(store, self._options, os.cpu_count() or 1)
        finally:
            if not tasks:
                give_back(store, lease)
        part_count = len(tasks) if len(tasks) <= PARTS_MAX else 0
        return [LeasedTask(task, lease, part, part_count) for part, task in enumerate(tasks)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one task. A plan without tasks comes back as one whose value is None, in PySpark 4.1 as None."""
        if partition is None or partition.value is None:
            return iter(())
        keep_freed_memory()
        freeze_modules()
        return self._to_the_end(partition)

    def _to_the_end(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task; when Spark has taken all of them, its part of the lease is over."""
        yield from self._columns.decode(self._read(partition))
        if isinstance(partition, LeasedTask) and partition.lease is not None and partition.part_count:
            store = open_archive(self._options.archive, self._options.store_options)
            finish_task(store, partition.lease, partition.part, partition.part_count)

    def _read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        request = ReadRequest(
            columns=self._columns.raw,
            required=self._columns.required,
            batch_bytes=self._options.batch_bytes,
            read_committed=self._options.read_committed,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        url = self._options.bad_records_url
        quarantine = open_quarantine(url, self._options.store_options) if url else None
        if self._options.hot_tail is not None and isinstance(partition.value[0], HotSlice):
            return read_hot_slices(self._options.hot_tail, partition.value, request, quarantine)
        if self._options.converted is not None and isinstance(partition.value[0], ParquetSlice):
            settings = self._options.store_options
            return read_parquet_slices(self._options.converted, settings, partition.value, request)
        store = open_archive(self._options.archive, self._options.store_options)
        keep_lease(store, getattr(partition, "lease", None))
        return read_slices(store, partition.value, request, quarantine)
