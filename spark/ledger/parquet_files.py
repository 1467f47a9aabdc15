"""Rows of one span into Parquet files, in a worker: a file a folder, in offset order, at most so large.

Row groups end at 131,072 rows or 64 MB, whichever comes first. zstd-3; offsets and times are delta-encoded (a million
offsets take 5 KB), topic, partition and timestampType are dictionaries, statistics are kept of what is searched by, and
each page has a checksum.
The same rows make the same files, in every process and every time.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct, field

from stratalog.spark.rows.schema import COLUMNS, arrow_schema

__all__ = ["FileLimits", "Folders", "WrittenFile", "write_files"]

ROW_GROUP_ROWS: Final = 131_072
ROW_GROUP_BYTES: Final = 64_000_000
_PENDING_BYTES_MAX: Final = 128_000_000
"""Bytes of all open files together; the largest is written first."""
_OPEN_FILES_MAX: Final = 64

Folders: TypeAlias = Callable[[pa.RecordBatch], Iterable[tuple[str, pa.RecordBatch]]]
"""Divides rows by the folder they belong to, and by the period that it stands for, keeping their order."""


class FileLimits(NamedTuple):
    """A file is ended by the row group that makes it this large. With ``period_us`` it has the times of one period only,
    counted from 1970 on, also where one folder is that of several.
    """

    file_bytes: int = 256 << 20
    row_group_rows: int = ROW_GROUP_ROWS
    row_group_bytes: int = ROW_GROUP_BYTES
    open_files: int = _OPEN_FILES_MAX
    period_us: int = 0


class WrittenFile(NamedTuple):
    """A finished file under its temporary ``path``, the folder it is for, and the offsets of its first and last row."""

    path: Path
    folder: str
    rows: int
    first: int
    last: int


def write_files(
    batches: Iterable[pa.RecordBatch],
    folders: Folders,
    new_path: Callable[[], Path],
    metadata: Callable[[WrittenFile], Mapping[str, str]],
    limits: FileLimits,
) -> list[WrittenFile]:
    """Write ``batches``, rows of one partition in offset order, to files at paths of ``new_path``.

    ``metadata`` is asked for the key-values of each footer. Unfinished files are removed if anything fails.
    """
    files = _OpenFiles(new_path, metadata, limits)
    try:
        for batch in batches:
            for folder, rows in folders(batch):
                if rows.num_rows:
                    files.add(folder, rows)
        return files.finish()
    except BaseException:
        files.remove()
        raise


_Key: TypeAlias = tuple[str, int]
"""A folder, and the number of the period of time where that counts."""


class _OpenFile(Struct):
    folder: str
    path: Path
    first: int
    last: int
    stream: pa.NativeFile
    writer: pq.ParquetWriter
    rows: int = 0
    pending: list[pa.RecordBatch] = field(default_factory=list)
    pending_rows: int = 0
    pending_bytes: int = 0

    def flush(self) -> None:
        if self.pending:
            table = pa.Table.from_batches(self.pending)
            self.writer.write_table(table, row_group_size=max(1, self.pending_rows))
        self.pending, self.pending_rows, self.pending_bytes = [], 0, 0

    def told(self) -> WrittenFile:
        return WrittenFile(self.path, self.folder, self.rows, self.first, self.last)


class _OpenFiles:
    """One open file a folder, the least recently used of too many ended."""

    def __init__(
        self,
        new_path: Callable[[], Path],
        metadata: Callable[[WrittenFile], Mapping[str, str]],
        limits: FileLimits,
    ) -> None:
        self._new_path = new_path
        self._metadata = metadata
        self._limits = limits
        self._open: OrderedDict[_Key, _OpenFile] = OrderedDict()
        self._done: list[WrittenFile] = []

    def add(self, folder: str, rows: pa.RecordBatch) -> None:
        """Append rows to the folder's file, in row groups of the right size."""
        key = folder, _time_us(rows) // self._limits.period_us if self._limits.period_us else 0
        while rows.num_rows:
            file = self._file(key, rows)
            taken = self._room(file, rows)
            self._append(file, rows.slice(0, taken))
            rows = rows.slice(taken)
            if file.pending_rows >= self._limits.row_group_rows or file.pending_bytes >= self._limits.row_group_bytes:
                file.flush()
                if file.stream.tell() >= self._limits.file_bytes:
                    self._end(key)
        if sum(each.pending_bytes for each in self._open.values()) > _PENDING_BYTES_MAX:
            max(self._open.values(), key=lambda each: each.pending_bytes).flush()

    def finish(self) -> list[WrittenFile]:
        """End every file; all of them, in the order of their first offsets."""
        for key in list(self._open):
            self._end(key)
        return sorted(self._done, key=lambda each: (each.first, each.folder))

    def remove(self) -> None:
        """Give up: remove every file."""
        for file in self._open.values():
            with suppress(OSError, pa.ArrowException):  # a full disk, say; the first error is raised
                file.writer.close()
                file.stream.close()
            file.path.unlink(missing_ok=True)
        for written in self._done:
            written.path.unlink(missing_ok=True)

    def _room(self, file: _OpenFile, rows: pa.RecordBatch) -> int:
        room = self._limits.row_group_rows - file.pending_rows
        row_bytes = max(1, rows.nbytes // rows.num_rows)
        fitting = (self._limits.row_group_bytes - file.pending_bytes) // row_bytes + 1
        return max(1, min(int(rows.num_rows), room, int(fitting)))

    def _append(self, file: _OpenFile, rows: pa.RecordBatch) -> None:
        offsets = rows.column("offset")
        file.pending.append(rows)
        file.pending_rows += rows.num_rows
        file.pending_bytes += rows.nbytes
        file.rows += rows.num_rows
        file.last = offsets[len(offsets) - 1].as_py()

    def _file(self, key: _Key, rows: pa.RecordBatch) -> _OpenFile:
        found = self._open.get(key)
        if found is None:
            if len(self._open) >= self._limits.open_files:
                self._end(next(iter(self._open)))
            path = self._new_path()
            first = rows.column("offset")[0].as_py()
            stream = pa.OSFile(os.fspath(path), "wb")
            found = self._open[key] = _OpenFile(key[0], path, first, first, stream, _writer(stream))
        self._open.move_to_end(key)
        return found

    def _end(self, key: _Key) -> None:
        file = self._open[key]
        file.flush()
        file.writer.add_key_value_metadata(dict(self._metadata(file.told())))
        file.writer.close()
        file.stream.close()
        del self._open[key]
        self._done.append(file.told())


def _time_us(rows: pa.RecordBatch) -> int:
    return int(rows.column("timestamp")[0].value)


def _writer(stream: pa.NativeFile) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        stream,
        arrow_schema(COLUMNS),
        version="2.6",
        compression="zstd",
        compression_level=3,
        use_dictionary=["topic", "partition", "timestampType"],
        column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
        write_statistics=["topic", "partition", "offset", "timestamp"],
        write_page_index=True,
        write_page_checksum=True,
    )
