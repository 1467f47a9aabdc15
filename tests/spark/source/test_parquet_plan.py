"""A partly converted topic: the same rows, from files where they may be taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from stratalog import spark as sl
from stratalog.spark.archive_store import open_archive
from stratalog.spark.backfill.backfill import backfill
from stratalog.spark.ledger.ledger import OutputFile, Span, SpanId
from stratalog.spark.rows.schema import COLUMNS
from stratalog.spark.source import parquet_plan
from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.parquet_plan import ParquetSlice, group_files, split_range
from stratalog.spark.source.parquet_read import read_parquet_slices
from stratalog.spark.source.read_plan import plan
from stratalog.tier.planning.slices import OffsetRange
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def lake(tmp_path: Path, archive_in: Callable[[str], Any], batches: Callable[..., bytes], rig: Any) -> Any:
    """Two partitions, 120 records each converted to small files by day, 40 more each that were archived since."""
    builder = archive_in(f"file://{tmp_path / 'archive'}")
    for index in range(4):
        for partition in range(2):
            start_ms = 1_372_900_000_000 + (index * 40 + partition) * 3_600_000
            builder.add("orders", partition, batches(index * 40, 40, timestamp_ms=start_ms, step_ms=1_800_000))
        if index == 2:
            backfill(rig.settings(builder, str(tmp_path / "lake"), file_bytes=1000, task_bytes=3000), rig.HereRunner())
    builder.lake = str(tmp_path / "lake")
    return builder


def rows(archive: Any, columns: tuple[str, ...] = COLUMNS, **given: str) -> tuple[list[dict[str, Any]], int]:
    """The rows of a read, by partition and offset, and how many files it took them from."""
    options = parse_options({"path": archive.store.url, "subscribe": "orders", "lease": "false", **given})
    store, request = open_archive(options.archive, {}), ReadRequest(columns, read_committed=options.read_committed)
    found: list[dict[str, Any]] = []
    files = 0
    for task in plan(store, options, 2):
        if isinstance(task[0], ParquetSlice):
            files += len(task)
            batches = read_parquet_slices(options.converted or "", {}, task, request)  # type: ignore[arg-type]
        else:
            batches = read_slices(store, task, request)  # type: ignore[arg-type]
        found += [row for batch in batches for row in batch.to_pylist()]
    if {"partition", "offset"} <= set(columns):
        found.sort(key=lambda row: (row["partition"], row["offset"]))
    return found, files


@pytest.mark.parametrize(
    "bounds",
    [
        {},
        {"startingOffsets": '{"orders":{"0":17,"1":119}}'},
        {"endingOffsets": '{"orders":{"0":121,"1":3}}'},
        {"startingOffsets": '{"orders":{"0":50,"1":60}}', "endingOffsets": '{"orders":{"0":51,"1":60}}'},
    ],
)
def test_rows_are_those_of_the_archive(lake: Any, bounds: dict[str, str]) -> None:
    """Every column of every row, at any bounds; files are read, and the archive for what came later."""
    expected, none = rows(lake, **bounds)
    found, files = rows(lake, converted=lake.lake, **bounds)
    assert found == expected
    assert files > none == 0
    assert rows(lake, converted=lake.lake, prefer="segments", **bounds) == (expected, 0)
    values, _ = rows(lake, ("value",), converted=lake.lake, **bounds)
    assert sorted(map(str, values)) == sorted(str({"value": row["value"]}) for row in expected)


def test_objects_replaced_since_are_read_from_the_archive(lake: Any) -> None:
    """A cleaned or merged object is not the one that was converted."""
    from msgspec.structs import replace

    expected, _ = rows(lake)
    _, all_files = rows(lake, converted=lake.lake)
    manifest = lake.manifests["orders", 0]
    changed = replace(manifest.entries[1], crc32c=manifest.entries[1].crc32c ^ 1)
    lake.write("orders", 0, replace(manifest, entries=(manifest.entries[0], changed, *manifest.entries[2:])), [])
    found, files = rows(lake, converted=lake.lake)
    assert found == expected
    assert 0 < files < all_files


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka.isolation.level": "read_uncommitted"}, "converted under read_committed, the query asks for"),
        ({"converted": "nowhere"}, "there is no backfill of it there"),
    ],
)
def test_files_that_do_not_fit_are_not_read(lake: Any, tmp_path: Path, given: dict[str, str], message: str) -> None:
    """The archive is, unless files were asked for by name."""
    asked = {"converted": lake.lake, **given}
    if asked["converted"] == "nowhere":
        asked["converted"] = str(tmp_path / "nowhere")
    assert rows(lake, **asked) == rows(lake)
    with pytest.raises(Invalid, match=message):
        rows(lake, prefer="parquet", **asked)
    with pytest.raises(Invalid, match="option 'converted' must name"):
        parse_options({"path": "x", "subscribe": "orders", "prefer": "parquet"})


def test_a_partition_does_not_look_at_the_spans_of_others(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thousands of partitions, and a million spans."""
    looks: list[Any] = []
    monkeypatch.setattr(parquet_plan, "_current", lambda archive, spans: looks.append((archive, spans)) or [])
    rows(lake, converted=lake.lake)
    assert [{span.id.partition for span in spans} for _, spans in looks] == [{0}, {1}]


def test_a_batch_that_a_backfill_left_out_is_not_passed_over(
    lake: Any, batches: Any, rig: Any, rewrite_rig: Any
) -> None:
    """Its span is read from the archive, which raises, or has it in the quarantine."""
    lake.add("orders", 0, rewrite_rig.unreadable_batch(160) + batches(161, 5))
    summary = backfill(rig.settings(lake, lake.lake), rig.HereRunner())
    assert summary.left_out == [(0, 160, 161)]
    with pytest.raises(Corrupt, match="offset 160"):
        rows(lake)
    with pytest.raises(Corrupt, match="offset 160"):
        rows(lake, converted=lake.lake)
    found, files = rows(lake, converted=lake.lake, endingOffsets='{"orders":{"0":120}}')
    assert (len(found), files > 0) == (280, True)


def test_another_topic_of_the_name_is_not_taken(lake: Any, archive_in: Callable[[str], Any], tmp_path: Path) -> None:
    """Its id tells."""
    other = archive_in(f"file://{tmp_path / 'other'}")
    data = lake.store.get(lake.manifests["orders", 0].entries[0].key)[0]
    other.add("orders", 0, data[: lake.manifests["orders", 0].entries[0].data_bytes], topic_id=b"o" * 16)
    assert rows(other, converted=lake.lake) == rows(other)


def test_files_of_a_store_are_read_by_ranges(lake: Any) -> None:
    """As from a bucket, which has no paths."""
    from stratalog.tier.stores.memory_store import MemoryStore
    from stratalog.tier.stores.opening import provide_store, withdraw_store

    store = MemoryStore("memory:lake")
    for path in Path(lake.lake).rglob("*"):
        if path.is_file() and not path.relative_to(lake.lake).parts[0].startswith("."):
            store.put(path.relative_to(lake.lake).as_posix(), path.read_bytes())
    provide_store("memory:lake", store)
    try:
        assert rows(lake, converted="memory:lake") == rows(lake, converted=lake.lake)
    finally:
        withdraw_store("memory:lake")


def span(start: int, end: int, *files: tuple[int, int]) -> Span:
    made = tuple(OutputFile(f"{first}", last - first + 1, 100, 0, first, last) for first, last in files)
    return Span(SpanId(0, start, end), (), made)


@given(
    borders=st.lists(st.integers(0, 60), min_size=2, max_size=12, unique=True).map(sorted),
    start=st.integers(0, 60),
    length=st.integers(0, 60),
)
def test_every_offset_is_read_once(borders: list[int], start: int, length: int) -> None:
    """From a file or from the archive, whatever was converted and is asked for."""
    spans = [span(a, b, (a, b - 1)) for a, b in zip(borders[::2], borders[1::2], strict=False)]
    parts = split_range(ORDERS, OffsetRange(start, start + length), spans)
    in_files = [o for each in parts.files for o in range(each.start_offset, each.end_offset)]
    left = [o for each in parts.left for o in range(each.start, each.end)]
    assert sorted(in_files + left) == list(range(start, start + length))
    converted = {o for one in spans for o in range(one.id.start, one.id.end)}
    assert set(in_files) == converted & set(range(start, start + length))


def test_files_of_a_span_are_taken_as_far_as_they_reach() -> None:
    """Those of several days overlap in offsets; a span without rows has none."""
    spans = [span(0, 10, (0, 8), (1, 9)), span(10, 20), span(20, 30, (20, 24), (25, 29))]
    parts = split_range(ORDERS, OffsetRange(0, 26), spans)
    assert [(each.path, each.start_offset, each.end_offset, each.whole) for each in parts.files] == [
        ("0", 0, 10, True), ("1", 0, 10, True), ("20", 20, 26, True), ("25", 20, 26, False),
    ]  # fmt: skip
    assert parts.left == []


def test_files_are_shared_out_evenly() -> None:
    """Two tasks a core, or more where they would be too large."""
    files = [ParquetSlice("orders", 0, str(n), 10 << 20, n, n + 1, whole=True) for n in range(40)]
    tasks = group_files(files, 2, 256 << 20)
    assert [each for task in tasks for each in task] == files
    assert 4 <= len(tasks) <= 5
    assert len(group_files(files, 2, 20 << 20)) >= 20
    assert group_files([], 2, 1) == []


@pytest.mark.story
@pytest.mark.spark
def test_a_query_reads_files_and_archive(spark: SparkSession, lake: Any) -> None:
    """Through Spark, with the same hash over all columns."""
    expected = sl.read(spark, lake.store.url, topics="orders", includeHeaders=True)
    found = sl.read(spark, lake.store.url, topics="orders", includeHeaders=True, converted=lake.lake, prefer="parquet")
    plain = "transform(headers, h -> concat(h.key, '=', coalesce(hex(h.value), 'null')))"
    columns = ", ".join(name if name != "headers" else plain for name in COLUMNS)
    hashes = [frame.selectExpr("count(1)", f"bit_xor(xxhash64({columns}))").first() for frame in (expected, found)]
    assert hashes[0] == hashes[1]
    assert hashes[0][0] == 320
