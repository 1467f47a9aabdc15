"""Converted rows out of Parquet files, in an executor: the columns asked for, of the row groups that may hold them."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stratalog.spark.ledger.target import open_target
from stratalog.spark.rows.schema import arrow_schema
from stratalog.spark.source.fetch import ReadRequest
from stratalog.spark.source.parquet_plan import ParquetSlice
from stratalog.spark.source.planner import DataLoss
from stratalog.tier.stores.file_backed import file_of
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.errors import Corrupt

__all__ = ["read_parquet_slices"]

_BATCH_ROWS: Final = 16_384

_logger = logging.getLogger("stratalog.spark")


def read_parquet_slices(
    url: str, settings: Mapping[str, str], slices: Sequence[ParquetSlice], request: ReadRequest
) -> Iterator[pa.RecordBatch]:
    """The rows of ``slices``, files below ``url``, in their order.

    Raises `DataLoss` for a file that is not there (a warning instead, if the request says so), and `Corrupt`.
    """
    target = open_target(url, settings if url.startswith("s3") else {})
    for each in slices:
        where = f"{each.topic_partition}, file {target.url}/{each.path}"
        try:
            yield from _rows(target.store, each, request)
        except (NotFound, FileNotFoundError) as error:
            loss = (
                f"{where}: it is not there. If a backfill replaced it while the query ran, run the query again; option "
                f"'prefer=segments' reads the archive instead"
            )
            if request.fail_on_data_loss:
                raise DataLoss(loss) from error
            _logger.warning("%s; skipped, because failOnDataLoss is false", loss)
        except (pa.ArrowInvalid, OSError) as error:
            raise Corrupt(f"{where}: {error}; option 'prefer=segments' reads the archive instead") from error


def _rows(store: ObjectStore, each: ParquetSlice, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(request.columns, request.required)
    read = [*request.columns] if each.whole or "offset" in request.columns else [*request.columns, "offset"]
    with (
        _opened(store, each) as source,
        pq.ParquetFile(source, pre_buffer=True, page_checksum_verification=True) as file,
    ):
        groups = range(file.num_row_groups) if each.whole else _groups(file, each)
        if not groups:
            return
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=list(groups), columns=read):
            rows = batch if each.whole else _inside(batch, each)
            if rows.num_rows:
                yield pa.RecordBatch.from_arrays([rows.column(name) for name in request.columns], schema=schema)


def _groups(file: pq.ParquetFile, each: ParquetSlice) -> list[int]:
    """The row groups that may hold the offsets."""
    column = file.metadata.schema.names.index("offset")
    found = []
    for index in range(file.num_row_groups):
        told = file.metadata.row_group(index).column(column).statistics
        if told is None or (told.min < each.end_offset and told.max >= each.start_offset):
            found.append(index)
    return found


def _inside(batch: pa.RecordBatch, each: ParquetSlice) -> pa.RecordBatch:
    offsets = batch.column("offset")
    above = pc.greater_equal(offsets, each.start_offset)
    return batch.filter(pc.and_(above, pc.less(offsets, each.end_offset)))


def _opened(store: ObjectStore, each: ParquetSlice) -> pa.NativeFile:
    path = file_of(store, each.path)
    if path is not None:
        return pa.OSFile(path, "rb")
    return pa.PythonFile(_RangeFile(store, each.path, each.size_bytes), "r")


class _RangeFile(io.RawIOBase):
    """An object as a file: each read is one ranged GET."""

    def __init__(self, store: ObjectStore, key: str, size_bytes: int) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._size_bytes = size_bytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = self._size_bytes - self._position
        length = left if size is None or size < 0 else min(size, left)
        if length <= 0:
            return b""
        data = self._store.get_range(self._key, self._position, length)
        self._position += length
        return data
