"""Rows of a span into files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stratalog.spark.ledger.folders import folders_of
from stratalog.spark.ledger.layout import NO_VALUE
from stratalog.spark.ledger.parquet_files import FileLimits, WrittenFile, write_files
from stratalog.spark.rows.schema import COLUMNS, arrow_schema

DAY_US = 86_400_000_000
DAYS = folders_of("date")


def rows(offsets: range, time_us: Callable[[int], int], value_bytes: int = 10) -> pa.RecordBatch:
    number = len(offsets)
    columns: dict[str, Any] = {
        "key": [b"k"] * number,
        "value": [b"%d" % at + b"x" * value_bytes for at in offsets],
        "topic": ["t"] * number,
        "partition": [0] * number,
        "offset": list(offsets),
        "timestamp": pa.array([time_us(at) for at in offsets], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "timestampType": [0] * number,
        "headers": [None] * number,
    }
    return pa.RecordBatch.from_pydict(columns, schema=arrow_schema(COLUMNS))


@pytest.fixture
def new_path(tmp_path: Path) -> Callable[[], Path]:
    numbers = count()
    return lambda: tmp_path / f"{next(numbers)}.parquet"


def no_metadata(file: WrittenFile) -> dict[str, str]:
    del file
    return {}


def test_a_file_a_day_in_offset_order(new_path: Callable[[], Path]) -> None:
    """Records that come late go to their day; sliced batches are read from their own rows."""
    batch = rows(range(100), lambda at: (at % 10 == 0) * DAY_US + at)
    files = write_files([batch.slice(5, 40), batch.slice(45)], DAYS, new_path, no_metadata, FileLimits())
    assert [(file.folder, file.rows, file.first, file.last) for file in files] == [
        ("date=1970-01-01", 86, 5, 99),
        ("date=1970-01-02", 9, 10, 90),
    ]
    offsets = pq.read_table(files[0].path).column("offset").to_pylist()
    assert offsets == [at for at in range(5, 100) if at % 10]


def test_row_groups_and_files_end_at_their_sizes(new_path: Callable[[], Path]) -> None:
    """By rows and by bytes; a file ends with the row group that fills it; footers hold the given metadata."""
    limits = FileLimits(file_bytes=2500, row_group_rows=30)
    told: list[WrittenFile] = []

    def metadata(file: WrittenFile) -> dict[str, str]:
        told.append(file)
        return {"stratalog.base": str(file.first)}

    files = write_files([rows(range(100), lambda at: at, 40)], DAYS, new_path, metadata, limits)
    groups = [pq.ParquetFile(file.path).metadata for file in files]
    assert [[one.row_group(at).num_rows for at in range(one.num_row_groups)] for one in groups] == [
        [30, 30, 30, 10]
    ] or [one.num_rows for one in groups] == [30] * 3 + [10]
    assert told == files
    assert pq.ParquetFile(files[0].path).metadata.metadata[b"stratalog.base"] == b"0"
    by_bytes = write_files(
        [rows(range(100), lambda at: at, 1000)], DAYS, new_path, no_metadata, FileLimits(row_group_bytes=10_000)
    )
    sizes = pq.ParquetFile(by_bytes[0].path).metadata
    assert sizes.num_row_groups > 5
    assert sum(file.rows for file in by_bytes) == 100


def test_no_more_files_are_open_than_allowed(new_path: Callable[[], Path]) -> None:
    """Rows in all directions: the least recently used file is ended, names stay unique by their first offsets."""
    limits = FileLimits(open_files=3)
    batches = [rows(range(at, at + 5), lambda offset: (offset % 5) * DAY_US) for at in range(0, 50, 5)]
    files = write_files(batches, DAYS, new_path, no_metadata, limits)
    assert sum(file.rows for file in files) == 50
    assert len({(file.folder, file.first) for file in files}) == len(files) > 5
    assert sorted(at for file in files for at in pq.read_table(file.path).column("offset").to_pylist()) == list(
        range(50)
    )


def test_the_same_rows_make_the_same_bytes(new_path: Callable[[], Path]) -> None:
    """Two files written from the same rows are equal byte by byte."""
    made = [write_files([rows(range(500), lambda at: at)], DAYS, new_path, no_metadata, FileLimits()) for _ in range(2)]
    assert made[0][0].path.read_bytes() == made[1][0].path.read_bytes()


def test_a_failed_write_leaves_no_file(new_path: Callable[[], Path], tmp_path: Path) -> None:
    """Open files and finished ones."""

    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(range(100), lambda at: at * DAY_US // 10)
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        write_files(failing(), DAYS, new_path, no_metadata, FileLimits(open_files=2))
    assert list(tmp_path.iterdir()) == []
    assert write_files([], DAYS, new_path, no_metadata, FileLimits()) == []


def test_periods_without_a_folder_of_their_own_have_files_of_their_own(new_path: Callable[[], Path]) -> None:
    """Days that no calendar has a name for share a folder; a limit keeps their rows apart, else they share files."""
    batch = rows(range(12), lambda at: (at % 3 - 900_000) * DAY_US)
    apart = write_files([batch], DAYS, new_path, no_metadata, FileLimits(period_us=DAY_US))
    assert [(file.folder, file.rows, file.first) for file in apart] == [
        (f"date={NO_VALUE}", 4, first) for first in range(3)
    ]
    assert len(write_files([batch], DAYS, new_path, no_metadata, FileLimits())) == 1
