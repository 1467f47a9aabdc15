"""``readStream.format("stratalog")``: PySpark's stream reader over `stratalog.spark.source.stream_driver`.

One long-lived Python worker of the driver holds the reader and its state; executors get a copy without any and only
read. The offsets in the checkpoint are Kafka's JSON, so a restart needs nothing but them: `stream_offsets` tells how the
first micro-batch is planned again.

PySpark 4.1 asks for the latest offset without telling start or limit, and has no Python source that supports
``Trigger.AvailableNow``: there the reader goes by the last limits it got, and by its own limits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from stratalog.spark.archive_store import open_archive
from stratalog.spark.source.options import ReadOptions
from stratalog.spark.source.source import LeasedTask, StratalogReader
from stratalog.spark.source.stream_driver import StreamDriver
from stratalog.spark.source.stream_offsets import (
    BEGINNING,
    OffsetDocument,
    Offsets,
    first_end,
    first_start,
    offset_document,
    parse_offsets,
    shortened_of,
    with_shortened,
)
from stratalog.spark.source.stream_options import StreamOptions
from stratalog.spark.source.stream_plan import BatchLimits

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # PySpark 4.1

        class SupportsTriggerAvailableNow:
            """Stands in for what PySpark 4.1 does not have and does not ask for."""


__all__ = ["StratalogStreamReader"]


class StratalogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets and tasks on the driver, rows in executors."""

    def __init__(self, options: ReadOptions, stream: StreamOptions, reader: StratalogReader) -> None:
        self._options = options
        self._stream = stream
        self._reader = reader
        self._driver: StreamDriver | None = None
        self._position: OffsetDocument | None = None

    def initialOffset(self) -> OffsetDocument:  # noqa: N802 - PySpark's name, as those below
        """Where a query without a checkpoint begins; the same text whenever Spark asks."""
        return dict(BEGINNING)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limits of the options, as far as PySpark has words for them; `latestOffset` knows the rest."""
        from pyspark.sql.streaming.datasource import (  # noqa: PLC0415 - PySpark 4.1 has none of them
            ReadAllAvailable,
            ReadMaxRows,
            ReadMinRows,
        )

        limits = self._stream.limits
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        return ReadAllAvailable() if limits.offsets_min is None else ReadMinRows(limits.offsets_min)

    def latestOffset(self, start: Any = None, limit: Any = None) -> OffsetDocument:  # noqa: N802
        """Where the next micro-batch ends; ``start`` if there is none."""
        if start is None:  # then it begins where the one before it ended
            start = BEGINNING if self._position is None else self._position
        driver, limits = self._opened(), self._limits(limit)
        if start == BEGINNING:
            begin = driver.initial()
            known = driver.shortened(begin)
            end = driver.next_end(begin, limits, known)  # a stream that ends here has no look any more
            return with_shortened(first_end(end, begin), driver.shortened(end, known))
        position, known_last = parse_offsets(start), shortened_of(start)
        end = driver.next_end(position, limits, known_last)
        return (
            dict(start) if end == position else with_shortened(offset_document(end), driver.shortened(end, known_last))
        )

    def _limits(self, limit: Any) -> BatchLimits | None:
        """Limit that Spark asks for: all that there is, or the one of `getDefaultReadLimit`."""
        if type(limit).__name__ == "ReadAllAvailable":
            return None
        rows = getattr(limit, "max_rows", None)
        return self._stream.limits if rows is None else replace(self._stream.limits, offsets_max=rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End where the archive, or with ``hotTail`` the log, ends now."""
        self._opened().freeze()

    def reportLatestOffset(self) -> OffsetDocument | None:  # noqa: N802
        """Where the archive, or the log, ends, for the lag in the query's progress."""
        latest = None if self._driver is None else self._driver.latest()
        return None if latest is None else offset_document(latest)

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        """The tasks of one micro-batch; none where ``start`` is ``end``, by which PySpark only tells where it is."""
        self._position = end
        if start == end:
            return []
        begin = self._first_start(end) if start == BEGINNING else parse_offsets(start)
        known = shortened_of(end)
        known_first = known if start == BEGINNING else shortened_of(start)
        tasks, lease = self._opened().plan(begin, parse_offsets(end), known_first, known)
        return [LeasedTask(task, lease) for task in tasks]

    def _first_start(self, end: OffsetDocument) -> Offsets:
        recorded = first_start(end)
        return self._opened().start_by_options(parse_offsets(end)) if recorded is None else recorded

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self._reader.read(partition)

    def commit(self, end: Any) -> None:
        """The micro-batch that ends at ``end`` is done."""
        del end
        if self._driver is not None:
            self._driver.committed()

    def stop(self) -> None:
        """The query has ended."""
        if self._driver is not None:
            self._driver.close()

    def _opened(self) -> StreamDriver:
        if self._driver is None:
            store = open_archive(self._options.archive, self._options.store_options)
            self._driver = StreamDriver(store, self._options, self._stream, os.cpu_count() or 1)
        return self._driver
