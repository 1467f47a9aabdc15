"""Figures that tasks add up, and what is missing between them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.reports import figures as module
from stratalog.spark.reports.figures import (
    PARTS,
    Edge,
    Keys,
    Missing,
    check_grouping,
    day_text,
    figures,
    figures_table,
    missing_between,
    sum_slices,
)
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.read_plan import plan_slices
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.opening import provide_store, withdraw_store
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

DAY_MS = 86_400_000
URL = "memory:spark-stats"


@pytest.fixture
def rows() -> Any:
    """A compacted partition: (offset, day, key, value) of each record, over three objects; every third offset is gone."""
    store = MemoryStore(URL)
    provide_store(URL, store)
    kept = [
        (at, at // 40, None if at % 10 == 7 else b"k%d" % (at % 6), None if at % 4 == 1 else b"v" * at)
        for at in range(120)
        if at % 3 != 1 or at % 40 in {0, 39}
    ]
    segments = []
    for base in range(0, 120, 40):
        records = [Record(at, day * DAY_MS + at, key, value) for at, day, key, value in kept if base <= at < base + 40]
        segments.append(bytes(build_batch(records, leader_epoch=0)))
    archive_log(store, PartitionId("t", b"t" * 16, 0), segments, now_ms=1, compacted=True)
    yield kept
    withdraw_store(URL)


def added_up(**given_options: Any) -> list[dict[str, Any]]:
    options = parse_options({"path": URL, "subscribe": "t", "lease": "false"})
    store = module.open_archive(URL, {})
    batches = list(sum_slices(plan_slices(store, options), options, None, **given_options))
    assert all(batch.schema == PARTS for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("rows_max", [1, 50, 1 << 19])
def test_a_task_adds_up_what_a_loop_over_records_does(
    rows: Any, rows_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By day and key, by day alone; however often sums are handed on; and where the records begin and end."""
    monkeypatch.setattr(module, "_ROWS_MAX", rows_max)
    for with_keys in (True, False):
        found = added_up(with_keys=with_keys)
        edges = [row for row in found if row["last_day"] is not None]
        assert [(row["first_offset"], row["day"], row["last_offset"], row["last_day"]) for row in edges] == [
            (rows[0][0], 0, rows[-1][0], 2)
        ]
        sums: dict[Any, list[int]] = {}
        for row in found:
            each = sums.setdefault((row["day"], row["key"]), [0] * len(module.SUMS))
            sums[row["day"], row["key"]] = [one + row[name] for one, name in zip(each, module.SUMS, strict=True)]
        expected: dict[Any, list[int]] = {}
        before = rows[0][0] - 1
        for at, day, key, value in rows:
            size = len(key or b"") + len(value or b"")
            gap = at - before - 1
            add = (1, size, int(key is None), int(value is None), gap, int(gap > 0))
            group = day, key if with_keys else None
            expected[group] = [one + two for one, two in zip(expected.get(group, [0] * 6), add, strict=True)]
            before = at
        sums = {group: each for group, each in sums.items() if any(each)}
        assert sums == expected


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)), max_size=5),
    st.integers(0, 5),
)
def test_every_offset_is_a_record_or_missing(lead: int, tasks: list[tuple[int, int, int]], tail: int) -> None:
    """Parts that tasks report in any order are counted once each."""
    start, at, covered, edges = 10, 10 + lead, 0, []
    for gap, length, day in tasks:
        edges.append(Edge(at, day, at + length, day))
        covered += length + 1
        at += length + 1 + gap
    end = at + tail
    found = missing_between(start, end, reversed(edges))
    assert sum(each.offsets for each in found.values()) == end - start - covered
    assert all(each.runs <= each.offsets and each.runs > 0 for each in found.values())
    assert (None in found) == (not edges and end > start)


def test_missing_offsets_count_for_the_record_behind_them() -> None:
    """Those at the end for the record before."""
    found = missing_between(0, 30, [Edge(20, 2, 24, 3), Edge(5, 1, 9, 1)])
    assert found == {1: Missing(5, 1), 2: Missing(10, 1), 3: Missing(5, 1)}


def test_figures_are_grouped_sorted_and_told_with_what_is_missing() -> None:
    """A partition without a record that can be read is a row, too."""
    sums = [
        {"topic": "t", "partition": 1, "day": 3, "records": 4, "bytes": 9, "keys": 2, "null_keys": 0, "null_values": 1,
         "missing": 2, "gaps": 1, "first_offset": 7, "last_offset": 12, "first_timestamp_us": 5_500,
         "last_timestamp_us": 9_000},
    ]  # fmt: skip
    missing = {
        TopicPartition("t", 1): {3: Missing(5, 2)},
        TopicPartition("t", 0): {None: Missing(8, 1)},
    }
    rows = figures(sums, missing, ("partition", "day"), Keys.EXACT)
    assert [(row.partition, row.day, row.records, row.keys, row.missing_offsets, row.gaps) for row in rows] == [
        (0, None, 0, 0, 8, 1),
        (1, "1970-01-04", 4, 2, 7, 3),
    ]
    assert rows[1][-4:] == (7, 12, 5, 9)
    whole = figures(sums, missing, (), Keys.NONE)
    assert [(row.topic, row.partition, row.day, row.keys, row.missing_offsets) for row in whole] == [
        ("t", None, None, None, 15)
    ]
    table = figures_table(rows)
    assert table.schema.field("first_timestamp").type == pa.timestamp("ms", tz="UTC")
    assert table["records"].to_pylist() == [0, 4]


def test_days_and_groupings() -> None:
    """A day that no calendar has is a number; what figures cannot be told apart by is refused."""
    assert [day_text(day) for day in (0, -1, 20_000, 1 << 40, None)] == [
        "1970-01-01", "1969-12-31", "2024-10-04", str(1 << 40), None
    ]  # fmt: skip
    assert check_grouping(["day", "partition", "topic"]) == ("partition", "day")
    with pytest.raises(Invalid, match="'week' is no way to group"):
        check_grouping(["week"])
