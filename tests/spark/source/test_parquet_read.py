"""Files of converted rows, read one by one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stratalog.spark.rows.decode import Window, decode_batches
from stratalog.spark.rows.schema import COLUMNS
from stratalog.spark.source.fetch import ReadRequest
from stratalog.spark.source.parquet_plan import ParquetSlice
from stratalog.spark.source.parquet_read import read_parquet_slices
from stratalog.spark.source.planner import DataLoss
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

NAME = "orders+0.parquet"


@pytest.fixture
def path(tmp_path: Path, batches: Callable[..., bytes]) -> Path:
    """A hundred rows in row groups of thirty."""
    rows = decode_batches(batches(0, 100), TopicPartition("orders", 0), COLUMNS, Window(0, 1000))
    pq.write_table(pa.Table.from_batches(rows), tmp_path / NAME, row_group_size=30, write_page_checksum=True)
    return tmp_path / NAME


def read(path: Path, start: int = 0, end: int = 1000, **request: Any) -> list[dict[str, Any]]:
    """The rows of a file with these offsets."""
    whole = (start, end) == (0, 1000)
    slices = [ParquetSlice("orders", 0, NAME, 0, start, end, whole)]
    asked = ReadRequest(**{"columns": COLUMNS, **request})
    return [row for batch in read_parquet_slices(str(path.parent), {}, slices, asked) for row in batch.to_pylist()]


@pytest.mark.parametrize(("start", "end"), [(0, 1000), (0, 1), (29, 31), (45, 45), (60, 100), (99, 200), (100, 200)])
def test_the_offsets_asked_for_are_read(path: Path, start: int, end: int) -> None:
    """Whole, in part and not at all; the column of offsets need not be asked for."""
    everything = read(path)
    assert [row["offset"] for row in everything] == list(range(100))
    assert read(path, start, end) == [row for row in everything if start <= row["offset"] < end]
    values = read(path, start, end, columns=("value", "topic"))
    assert values == [{"value": row["value"], "topic": "orders"} for row in everything if start <= row["offset"] < end]


def test_a_file_that_is_gone_or_damaged_is_reported(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By its name; a loss may be accepted."""
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(Corrupt, match=rf"orders-0, file file://.*{re.escape(NAME)}.*prefer=segments"):
        read(path)
    path.unlink()
    with pytest.raises(DataLoss, match="it is not there"):
        read(path)
    with caplog.at_level(logging.WARNING):
        assert read(path, fail_on_data_loss=False) == []
    assert NAME in caplog.text


def test_damaged_pages_are_no_rows(path: Path) -> None:
    """Each page has a checksum; bytes that no reader needs may change."""
    data = path.read_bytes()
    footer_bytes = int.from_bytes(data[-8:-4], "little") + 8
    expected = read(path)
    for position in range(40, len(data) - footer_bytes, 97):
        path.write_bytes(data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :])
        try:
            found = read(path)
        except Corrupt:
            continue
        assert found == expected, position
