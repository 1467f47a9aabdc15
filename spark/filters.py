"""A query's own filters as bounds on rows: what they say of topic, partition, offset and timestamp prunes objects.

Bounds may let too much through, never too little: Spark evaluates every filter again on the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from stratalog.spark.planner import RowBounds

__all__ = ["bounds_of"]

_SETS: Final = {("topic",), ("partition",)}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_COMPARISONS: Final[dict[type, str]] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def bounds_of(filters: Iterable[Filter]) -> RowBounds:
    """The bounds that hold if all of ``filters`` do; a filter that says nothing of them is passed over."""
    bounds = RowBounds()
    for each in filters:
        column = getattr(each, "attribute", ())
        if isinstance(each, In):
            bounds = _narrow_to_values(bounds, column, each.value)
        elif type(each) in _COMPARISONS:
            bounds = _narrow(bounds, column, _COMPARISONS[type(each)], each.value)  # type: ignore[attr-defined]
    return bounds


def _narrow_to_values(bounds: RowBounds, column: tuple[str, ...], values: Iterable[Any]) -> RowBounds:
    kept = [value for value in values if value is not None]
    if column in _SETS:
        return _narrow_set(bounds, column[0], kept)
    if not kept or not all(isinstance(value, type(kept[0])) for value in kept):
        return bounds
    return _narrow(_narrow(bounds, column, ">=", min(kept)), column, "<=", max(kept))


def _narrow_set(bounds: RowBounds, column: str, values: list[Any]) -> RowBounds:
    wanted = frozenset(values)
    if column == "topic":
        return replace(bounds, topics=wanted if bounds.topics is None else bounds.topics & wanted)
    return replace(bounds, partitions=wanted if bounds.partitions is None else bounds.partitions & wanted)


def _narrow(bounds: RowBounds, column: tuple[str, ...], comparison: str, value: Any) -> RowBounds:
    if comparison == "=" and column in _SETS:
        return _narrow_set(bounds, column[0], [value])
    if comparison == "=":
        return _narrow(_narrow(bounds, column, ">=", value), column, "<=", value)
    if column == ("offset",) and isinstance(value, int):
        return _narrow_offsets(bounds, comparison, value)
    if column == ("timestamp",) and isinstance(value, datetime) and value.tzinfo is not None:
        return _narrow_times(bounds, comparison, value)
    return bounds


def _narrow_offsets(bounds: RowBounds, comparison: str, value: int) -> RowBounds:
    if comparison in {">", ">="}:
        lowest = value + 1 if comparison == ">" else value
        return replace(bounds, offset_min=_larger(bounds.offset_min, lowest))
    end = value if comparison == "<" else value + 1
    return replace(bounds, offset_end=_smaller(bounds.offset_end, end))


def _narrow_times(bounds: RowBounds, comparison: str, value: datetime) -> RowBounds:
    """A record's time is a whole number of ms, so that each comparison has an exact one in ms."""
    micros = (value - _EPOCH) // timedelta(microseconds=1)
    down, up = micros // 1000, -(-micros // 1000)
    if comparison in {">", ">="}:
        oldest = down + 1 if comparison == ">" else up
        return replace(bounds, timestamp_ms_min=_larger(bounds.timestamp_ms_min, oldest))
    newest = up - 1 if comparison == "<" else down
    return replace(bounds, timestamp_ms_max=_smaller(bounds.timestamp_ms_max, newest))


def _larger(known: int | None, value: int) -> int:
    return value if known is None else max(known, value)


def _smaller(known: int | None, value: int) -> int:
    return value if known is None else min(known, value)
