"""Folders of a backfill."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stratalog.spark.ledger.folders import folder_columns, folders_of
from stratalog.wire.errors import Invalid

HOUR_US = 3_600_000_000


def rows(values: list[bytes | None], times_us: list[int]) -> pa.RecordBatch:
    times = pa.array(times_us, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays(
        [pa.array(values, pa.binary()), times, pa.array(range(len(values)), pa.int64())],
        ["value", "timestamp", "offset"],
    )


def divided(partitioning: str, batch: pa.RecordBatch) -> dict[str, Any]:
    return {folder: each.column("offset").to_pylist() for folder, each in folders_of(partitioning)(batch)}


def test_rows_go_by_their_time() -> None:
    """A day, or a day and an hour; a batch of one period is passed on as it is; slices count their own rows."""
    batch = rows([b""] * 4, [0, 23 * HOUR_US, 24 * HOUR_US, HOUR_US])
    assert divided("date", batch) == {"date=1970-01-01": [0, 1, 3], "date=1970-01-02": [2]}
    assert divided("date", batch.slice(2, 1)) == {"date=1970-01-02": [2]}
    assert divided("hour", batch)["date=1970-01-01/hour=23"] == [1]
    assert next(iter(folders_of("date")(batch.slice(0, 2))))[1].equals(batch.slice(0, 2))
    assert divided("none", batch) == {"": [0, 1, 2, 3]}


def test_rows_go_by_fields_of_their_values() -> None:
    """Text, numbers, booleans; what has no such field, and what is no JSON, has a folder too."""
    values = [
        b'{"c":"AA"}',
        b'{"c":"B/6"}',
        b'{"c":7}',
        b'{"c":true}',
        b"{}",
        b"no",
        None,
        b"[1]",
        b'{"c":{}}',
        b'{"c":"AA"}',
    ]
    nowhere = "c=__HIVE_DEFAULT_PARTITION__"
    batch = rows(values, [0] * len(values))
    assert divided("value.c", batch) == {
        "c=AA": [0, 9], "c=B%2F6": [1], "c=7": [2], "c=true": [3], nowhere: [4, 5, 6, 7, 8],
    }  # fmt: skip
    assert divided("date,value.c", batch.slice(0, 2)) == {"date=1970-01-01/c=AA": [0], "date=1970-01-01/c=B%2F6": [1]}
    assert divided("value.c", batch.slice(0, 1)) == {"c=AA": [0]}


def test_half_a_character_is_no_value_and_ends_no_backfill() -> None:
    """JSON can write what no text holds: such a row goes where rows without the field go."""
    values = [b'{"c":"AA"}', rb'{"c":"\ud800"}', rb'{"c":"\ud83d\ude00"}', b'{"c":"\xff"}']
    found = divided("value.c", rows(values, [0] * len(values)))
    assert found == {"c=AA": [0], "c=__HIVE_DEFAULT_PARTITION__": [1, 3], "c=\U0001f600": [2]}


def test_values_that_cannot_name_folders_are_refused() -> None:
    """Unknown words, names that rows have already, names twice."""
    assert folder_columns("hour,value.carrier") == ("date", "hour", "carrier")
    assert folder_columns("none") == ()
    for wrong, words in (("day", "no way to partition"), ("value.", "no way to"), ("value.offset", "'offset'"),
                         ("value.Offset", "'Offset'"), ("value.timestamptype", "'timestamptype'"),
                         ("date,value.DATE", "'date'"), ("value.a,value.A", "'a'"),
                         ("date,hour", "'date'"), ("value.a=b", "'a=b'")):  # fmt: skip
        with pytest.raises(Invalid, match=words):
            folders_of(wrong)
