"""Figures by Spark against a loop over every record."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stratalog import spark as sl
from stratalog.spark.archive_store import open_archive
from stratalog.spark.reports import figures_spark
from stratalog.spark.reports.figures import Keys, day_text
from stratalog.spark.reports.figures_spark import archive_stats
from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.read_plan import plan_slices
from stratalog.tier import open_store
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.leases import list_leases
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch, build_control_batch
from stratalog.wire.errors import Invalid

pytestmark = pytest.mark.spark
Batches = Callable[..., bytes]


def transactions(first: int) -> tuple[bytes, list[AbortedTransaction]]:
    """Ten transactions of three records, with a marker behind each; every other one is aborted."""
    rolls, data, aborted, offset = random.Random(first), b"", [], first
    for number in range(10):
        producer = {"producer_id": 7, "producer_epoch": 0, "transactional": True, "leader_epoch": 0}
        when_ms = (offset // 20) * 86_400_000
        records = [Record(offset + i, when_ms + i, b"k%d" % rolls.randrange(5), b"v" * i) for i in range(3)]
        data += build_batch(records, base_sequence=0, **producer)  # type: ignore[arg-type]
        data += build_control_batch(int(number % 2), bytes(6), offset=offset + 3, timestamp_ms=when_ms, **producer)  # type: ignore[arg-type]
        if not number % 2:
            aborted.append(AbortedTransaction(7, offset, offset + 3, offset + 4))
        offset += 4
    return data, aborted


@pytest.fixture
def archive(tmp_path: Path, batches: Batches) -> str:
    """Topic ``plain`` of two partitions over three days; ``transactional``; ``aborted`` with no record to read."""
    store = open_store(f"file://{tmp_path}")
    for partition in range(2):
        segments = [batches(at, 200, timestamp_ms=1_372_900_000_000 + at * 600_000) for at in (0, 200)]
        archive_log(store, PartitionId("plain", b"p" * 16, partition), segments, now_ms=1, chunk_bytes=700)
    found = [transactions(first) for first in (0, 40)]
    aborted = [each for _, some in found for each in some]
    log = [data for data, _ in found]
    archive_log(store, PartitionId("transactional", b"t" * 16, 0), log, now_ms=1, aborted=aborted, chunk_bytes=500)
    records = [Record(offset, 1, b"k", b"v") for offset in range(3)]
    data = build_batch(
        records, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True, leader_epoch=0
    ) + build_control_batch(0, bytes(6), offset=3, timestamp_ms=1, producer_id=7, producer_epoch=0, leader_epoch=0)
    alone = [AbortedTransaction(7, 0, 3, 4)]
    archive_log(store, PartitionId("aborted", b"a" * 16, 0), [bytes(data)], now_ms=1, aborted=alone)
    return store.url


def expected(url: str, by: tuple[str, ...], **given: str) -> dict[Any, list[Any]]:
    """Records, bytes, keys, null keys and null values by a loop over decoded rows."""
    options = parse_options({"path": url, "subscribe": "plain,transactional", "lease": "false", **given})
    store = open_archive(url, {})
    request = ReadRequest(
        ("topic", "partition", "offset", "timestamp", "key", "value"), read_committed=options.read_committed
    )
    found: dict[Any, list[Any]] = defaultdict(lambda: [0, 0, set(), 0, 0])
    for batch in read_slices(store, plan_slices(store, options), request):
        for row in batch.to_pylist():
            day = str(row["timestamp"].date())
            each = found[row["topic"], row["partition"] if "partition" in by else None, day if "day" in by else None]
            each[0] += 1
            each[1] += len(row["key"] or b"") + len(row["value"] or b"")
            each[2] |= {row["key"]} - {None}
            each[3] += row["key"] is None
            each[4] += row["value"] is None
    return {group: [each[0], each[1], len(each[2]), *each[3:]] for group, each in found.items()}


@pytest.mark.story
@pytest.mark.parametrize(
    "by",
    [
        pytest.param((), marks=pytest.mark.slow),
        pytest.param(("partition",), marks=pytest.mark.slow),
        pytest.param(("day",), marks=pytest.mark.slow),
        ("partition", "day"),
    ],
)
def test_figures_are_those_of_a_loop_over_records(spark: SparkSession, archive: str, by: tuple[str, ...]) -> None:
    """Distinct keys of the group, not their sum; every offset is a record or missing."""
    for level in ("read_committed", "read_uncommitted"):
        isolation = {"kafka.isolation.level": level}
        options = parse_options(
            {"path": archive, "subscribe": "plain,transactional", "maxRecordsPerPartition": "37", **isolation}
        )
        rows = archive_stats(spark, options, by, Keys.EXACT)
        found = {
            (row.topic, row.partition, row.day): [row.records, row.bytes, row.keys, row.null_keys, row.null_values]
            for row in rows
        }
        assert found == expected(archive, by, **isolation)
        assert [(row.topic, row.partition or 0, row.day or "") for row in rows] == sorted(
            (row.topic, row.partition or 0, row.day or "") for row in rows
        )
        offsets = {"plain": 800, "transactional": 80}
        for topic, count in offsets.items():
            assert sum(row.records + row.missing_offsets for row in rows if row.topic == topic) == count
        runs = 11 if level == "read_committed" else 20  # aborted records and markers beside them are one run
        assert sum(row.gaps for row in rows if row.topic == "transactional") == runs
        assert sum(row.gaps for row in rows if row.topic == "plain") == 0


@pytest.mark.story
def test_keys_can_be_estimated_or_left_out(spark: SparkSession, archive: str) -> None:
    """All else stays the same; a topic that cannot be read is a row."""
    options = parse_options({"path": archive, "subscribe": "plain,aborted", "lease": "false"})
    exact = archive_stats(spark, options, ("day",), Keys.EXACT)
    assert [
        (row.day, row.records, row.keys, row.missing_offsets, row.gaps) for row in exact if row.topic == "aborted"
    ] == [(None, 0, 0, 4, 1)]
    near, none = (archive_stats(spark, options, ("day",), keys) for keys in (Keys.APPROXIMATE, Keys.NONE))
    assert [row._replace(keys=0) for row in near] == [row._replace(keys=0) for row in exact]
    assert [row._replace(keys=0) for row in none] == [row._replace(keys=0) for row in exact]
    assert [row.keys for row in near] == [row.keys for row in exact]  # so few are counted right
    assert {row.keys for row in none} == {None}


@pytest.mark.story
def test_by_name_it_is_a_data_frame_and_options_bound_it(
    spark: SparkSession, archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sl.stats`; a lease protects what it reads, and ends with it; what has no meaning for figures is refused."""
    planned, leases = figures_spark.plan_ranges, []

    def plan_ranges(store: Any, options: Any) -> Any:
        leases.append(len(list_leases(store)))
        return planned(store, options)

    monkeypatch.setattr(figures_spark, "plan_ranges", plan_ranges)
    found = sl.stats(spark, archive, topics="plain", by=["topic"], startingOffsets='{"plain": {"0": 390, "1": 395}}')
    row = found.collect()[0].asDict()
    assert (row["records"], row["first_offset"], row["last_offset"], row["day"]) == (15, 390, 399, None)
    assert leases == [1]
    assert list_leases(open_store(archive)) == []
    with pytest.raises(Invalid, match="not for figures"):
        sl.stats(spark, archive, topics="plain", valueFormat="string")
    assert day_text(0) == "1970-01-01"
