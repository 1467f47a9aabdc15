"""How the rows of a topic are divided into folders: by the time of the record, and by fields of JSON values. Pure.

``--partition-by date,value.carrier`` makes ``date=2013-07-04/carrier=AA/``. A value that is no JSON object, or has no
such field, goes where Hive and Spark look for nulls: no row is lost for want of a folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from stratalog.spark.ledger.layout import day_folder, hour_folder, value_folder
from stratalog.spark.ledger.parquet_files import Folders
from stratalog.spark.rows.schema import COLUMNS
from stratalog.wire.errors import Invalid

__all__ = ["folder_columns", "folders_of", "period_us"]

_DAY_US: Final = 86_400_000_000
_HOUR_US: Final = 3_600_000_000
_TIMES: Final = {"date": ("date",), "hour": ("date", "hour"), "none": ()}
_FIELD: Final = "value."


def folder_columns(partitioning: str) -> tuple[str, ...]:
    """The columns that the folders stand for, outermost first.

    Raises `Invalid` for what is neither ``none``, ``date``, ``hour`` nor ``value.FIELD``, nor a list of such.
    """
    columns: list[str] = []
    for part in partitioning.split(","):
        if part in _TIMES:
            columns += _TIMES[part]
        elif part.startswith(_FIELD) and part.removeprefix(_FIELD):
            columns.append(part.removeprefix(_FIELD))
        else:
            raise Invalid(
                f"{part!r} is no way to partition: choose date, hour, none, value.FIELD of a JSON value, "
                f"or a list like date,value.carrier"
            )
    # Spark does not tell capitals from small letters in names of columns.
    lowered = [name.lower() for name in columns]
    there = {name.lower() for name in COLUMNS}
    taken = [
        name
        for name, low in zip(columns, lowered, strict=True)
        if low in there or lowered.count(low) > 1 or set(name) & set("/=,")
    ]
    if taken:
        raise Invalid(f"a folder cannot be called {taken[0]!r}: rows have such a column, or it is given twice")
    return tuple(columns)


def period_us(partitioning: str) -> int:
    """Microseconds of the shortest period that folders are made by; 0 for none."""
    parts = partitioning.split(",")
    return _HOUR_US if "hour" in parts else _DAY_US if "date" in parts else 0


def folders_of(partitioning: str) -> Folders:
    """The function that divides rows as ``partitioning`` says. Raises as `folder_columns`."""
    folder_columns(partitioning)
    levels = [_level(part) for part in partitioning.split(",") if part != "none"]

    def divide(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        found = [("", batch)]
        for level in levels:
            found = [
                (f"{folder}/{inner}" if folder else inner, rows)
                for folder, outer in found
                for inner, rows in level(outer)
            ]
        yield from found

    return divide


def _level(part: str) -> Folders:
    if part == "date":
        return _by_time(day_folder, _DAY_US)
    if part == "hour":
        return _by_time(hour_folder, _HOUR_US)
    return _by_field(part.removeprefix(_FIELD))


def _by_time(name_of: Callable[[int], str], period_us: int) -> Folders:
    """A folder a period; ``name_of`` names it by any time inside."""

    def divide(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        column = batch.column("timestamp")
        times = np.frombuffer(column.buffers()[1], np.int64)[column.offset :][: batch.num_rows]
        periods = times // period_us
        first, last = int(periods.min()), int(periods.max())
        if first == last:
            yield name_of(first * period_us), batch
            return
        for period in np.unique(periods).tolist():
            yield name_of(period * period_us), batch.filter(pa.array(periods == period))

    return divide


def _by_field(name: str) -> Folders:
    """A folder for each value of the field ``name`` of JSON values; reading them costs a microsecond or two a row."""

    def divide(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        rows: dict[str, list[int]] = {}
        for index, value in enumerate(batch.column("value").to_pylist()):
            rows.setdefault(value_folder(name, _field(value, name)), []).append(index)
        if len(rows) == 1:
            yield next(iter(rows)), batch
            return
        for folder, indexes in sorted(rows.items()):
            yield folder, batch.take(pa.array(indexes, pa.int32()))

    return divide


def _field(value: bytes | None, name: str) -> str | None:
    try:
        document: Any = json.loads(value) if value is not None else None
    except (ValueError, RecursionError):
        return None
    found = document.get(name) if isinstance(document, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, str) and not _is_text(found):
        return None
    return str(found) if isinstance(found, str | int | float) else None


def _is_text(found: str) -> bool:
    """JSON can write half a character, a surrogate by itself, which no name of a folder holds."""
    try:
        found.encode()
    except UnicodeEncodeError:
        return False
    return True
