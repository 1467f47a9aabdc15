"""Rows of one topic for pandas, polars, DuckDB and everything else that takes Arrow: read as often as they are asked for.

Rows come by partition and offset, a few megabytes at a time, and are fetched ahead of the reader; nothing is kept.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stratalog.extras import naming_extra
from stratalog.spark.source.fetch import ReadRequest, open_quarantine, read_slices
from stratalog.spark.source.held_lease import HeldLease
from stratalog.spark.source.hot_tail import read_hot_slices
from stratalog.spark.source.options import ReadOptions
from stratalog.spark.source.quarantine import Quarantine
from stratalog.spark.source.read_plan import PlannedRange, plan_ranges, slices_of
from stratalog.spark.values.values import ReadColumns, resolve_values
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["Archived", "RowSet"]


class Archived:
    """The bucket behind an opened archive, with its lease; shared by all that is read from it."""

    def __init__(self, store: ObjectStore, lease_ms: int) -> None:
        self.store = store
        self.lease = HeldLease(store, lease_ms)
        self.closed = False
        # An archive that is forgotten rather than closed gives its lease back too; every possible reader holds this.
        self._end = weakref.finalize(self, self.lease.give_back)

    def check_open(self) -> None:
        """Raise `Invalid` once the archive is closed: without the lease its objects may go at any time."""
        if self.closed:
            raise Invalid(f"the archive {self.store.url} was closed: open it again, and read before closing it")

    def close(self) -> None:
        """Give the lease back; a second time this does nothing."""
        self.closed = True
        self._end()


class RowSet:
    """A selection of rows. It is planned anew, from the manifests as they are then, each time it is read.

    It has ``__arrow_c_stream__``, so DuckDB, polars, pandas and pyarrow take it as it is.
    """

    def __init__(self, archived: Archived, options: ReadOptions) -> None:
        self._archived = archived
        self._options = options
        self._columns = ReadColumns(options.columns, formats=resolve_values(options.values))

    @property
    def schema(self) -> pa.Schema:
        """The columns and their Arrow types. Raises `Invalid` for a wrong schema of keys or values."""
        return self._columns.schema

    def scan(self) -> pa.RecordBatchReader:
        """The rows as a stream; it can be read once.

        Raises `Invalid` for what the archive does not have and `DataLoss` for offsets that are gone; while reading also
        `Corrupt`, `RegistryError`, and what the store raises. With a hot tail also `Retriable` for brokers that do not answer.
        """
        self._archived.check_open()
        self._archived.lease.take()  # before any manifest
        ranges = plan_ranges(self._archived.store, self._options)
        request = ReadRequest(
            columns=self._columns.raw,
            batch_bytes=self._options.batch_bytes,
            read_committed=self._options.read_committed,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        url = self._options.bad_records_url
        quarantine = open_quarantine(url, self._options.store_options) if url else None
        rows = self._rows(ranges, request, quarantine)
        batches = self._columns.decode(rows)
        return pa.RecordBatchReader.from_batches(self.schema, self._leased(batches))

    def _rows(
        self, ranges: Sequence[PlannedRange], request: ReadRequest, quarantine: Quarantine | None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the archived rows of each partition, then its hot tail. Objects are fetched ahead over as many as have none."""
        brokers, store = self._options.hot_tail, self._archived.store
        slices = slices_of(ranges, self._options)
        if brokers is None or all(each.hot is None for each in ranges):
            return read_slices(store, slices, request, quarantine)

        def by_partition(brokers: str) -> Iterator[pa.RecordBatch]:
            for each in ranges:
                yield from read_slices(store, slices_of([each], self._options), request, quarantine)
                if each.hot is not None:
                    yield from read_hot_slices(brokers, [each.hot], request, quarantine)

        return by_partition(brokers)

    def _leased(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._archived.check_open()
            self._archived.lease.keep()
            yield batch

    def to_arrow(self) -> pa.Table:
        """All rows in memory. Raises what `scan` and its reader raise."""
        return self.scan().read_all()

    def to_pandas(self) -> pd.DataFrame:
        """All rows in memory, as pandas has them. Raises `MissingPackage` without pandas, and what `scan` raises."""
        with naming_extra("to_pandas", "pandas"):
            import pandas as pd  # noqa: F401, PLC0415 - pyarrow imports it after the rows have been read
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """All rows in memory, as polars has them. Raises `MissingPackage` without polars, and what `scan` raises."""
        with naming_extra("to_polars"):
            import polars as pl  # noqa: PLC0415 - optional

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def lazy_polars(self) -> pl.LazyFrame:
        """A lazy polars frame: only the columns that a query needs are decoded. Raises `MissingPackage` without polars."""
        with naming_extra("lazy_polars"):
            import polars as pl  # noqa: PLC0415 - optional
            from polars.io.plugins import register_io_source  # noqa: PLC0415

        def source(
            with_columns: list[str] | None, predicate: pl.Expr | None, row_count: int | None, _: int | None
        ) -> Iterator[pl.DataFrame]:
            left = row_count
            for batch in self._narrowed(with_columns).scan():
                frame = pl.DataFrame(batch)
                if left is not None:
                    frame = frame.head(left)
                    left -= frame.height
                yield frame if predicate is None else frame.filter(predicate)
                if left == 0:
                    return

        return register_io_source(source, schema=pl.DataFrame(self.schema.empty_table()).schema)

    def _narrowed(self, columns: Sequence[str] | None) -> RowSet:
        if not columns:
            return self
        return RowSet(self._archived, replace(self._options, columns=tuple(columns)))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.scan().__arrow_c_stream__(requested_schema)
