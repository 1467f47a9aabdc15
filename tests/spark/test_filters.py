"""Filters of a query as bounds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from stratalog.spark.filters import bounds_of
from stratalog.spark.planner import RowBounds

AT = datetime(2013, 7, 4, 12, 0, 0, 500, tzinfo=UTC)  # half a millisecond past noon
NOON_MS = 1_372_939_200_000


@pytest.mark.parametrize(
    ("filters", "bounds"),
    [
        ([EqualTo(("topic",), "a")], RowBounds(topics=frozenset({"a"}))),
        ([In(("topic",), ("a", "b")), In(("topic",), ("b", "c"))], RowBounds(topics=frozenset({"b"}))),
        ([EqualNullSafe(("partition",), 3)], RowBounds(partitions=frozenset({3}))),
        ([In(("partition",), (1, None))], RowBounds(partitions=frozenset({1}))),
        ([EqualTo(("offset",), 7)], RowBounds(offset_min=7, offset_end=8)),
        ([GreaterThan(("offset",), 7), LessThan(("offset",), 20)], RowBounds(offset_min=8, offset_end=20)),
        ([GreaterThanOrEqual(("offset",), 7), LessThanOrEqual(("offset",), 20)], RowBounds(offset_min=7, offset_end=21)),
        ([GreaterThan(("offset",), 7), GreaterThan(("offset",), 3)], RowBounds(offset_min=8)),
        ([In(("offset",), (30, 5))], RowBounds(offset_min=5, offset_end=31)),
        ([GreaterThanOrEqual(("timestamp",), AT)], RowBounds(timestamp_ms_min=NOON_MS + 1)),
        ([GreaterThan(("timestamp",), AT)], RowBounds(timestamp_ms_min=NOON_MS + 1)),
        ([LessThan(("timestamp",), AT)], RowBounds(timestamp_ms_max=NOON_MS)),
        ([LessThanOrEqual(("timestamp",), AT)], RowBounds(timestamp_ms_max=NOON_MS)),
        (
            [EqualTo(("timestamp",), datetime(2013, 7, 4, 12, tzinfo=UTC))],
            RowBounds(timestamp_ms_min=NOON_MS, timestamp_ms_max=NOON_MS),
        ),
    ],
)
def test_comparisons_become_bounds(filters: list[Filter], bounds: RowBounds) -> None:
    """Every comparison of the four columns has its exact bound; several narrow each other."""
    assert bounds_of(filters) == bounds


@pytest.mark.parametrize(
    "each",
    [
        Not(EqualTo(("topic",), "a")),
        IsNotNull(("offset",)),
        StringContains(("topic",), "a"),
        EqualTo(("value",), b"x"),
        EqualTo(("offset", "inner"), 3),
        EqualTo(("timestamp",), datetime(2013, 7, 4)),  # noqa: DTZ001 - what a query without zone would send
        In(("offset",), ()),
    ],
)
def test_other_filters_bound_nothing(each: Filter) -> None:
    """What is not understood lets every row through."""
    assert bounds_of([each]) == RowBounds()
