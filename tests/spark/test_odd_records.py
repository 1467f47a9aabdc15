"""Records as producers should not write them, and as they do: through batch reads, streams, backfills and Python."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import stratalog
from stratalog import spark as sl
from stratalog.spark.backfill.backfill import backfill
from stratalog.spark.backfill.spark_job import SparkRunner
from stratalog.spark.ledger.target import open_target
from stratalog.spark.source.counting import count_archive
from stratalog.spark.source.options import parse_options
from stratalog.tier import open_store
from stratalog.wire.batch import Header, Record, build_batch
from stratalog.wire.compression import Codec

pytestmark = pytest.mark.spark

HOLE = 1_000_000_000


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """As the rig has them."""
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    rows = []
    for row, time_us in zip(table.drop_columns("timestamp").to_pylist(), times, strict=True):
        headers = None if row["headers"] is None else tuple((each["key"], each["value"]) for each in row["headers"])
        rows.append((row["partition"], row["offset"], time_us, row["timestampType"], row["key"], row["value"], headers))
    return sorted(rows, key=lambda row: row[:2])


def streamed(rows: DataFrame, place: Path) -> DataFrame:
    """Rows that a stream has written by its end."""
    writer = rows.writeStream.format("parquet").option("checkpointLocation", f"{place}/checkpoint")
    run_to_end(rows.sparkSession, writer.option("path", f"{place}/rows"))
    return rows.sparkSession.read.parquet(f"{place}/rows")


def run_to_end(spark: SparkSession, writer: DataStreamWriter) -> None:
    """Until all that is there is read; PySpark 4.1 reads one micro-batch a run."""
    while True:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        if not spark.version.startswith("4.1.") or not any(each["numInputRows"] for each in query.recentProgress):
            return


def every_way(spark: SparkSession, place: Path, archive: Any, rig: Any, **stream: str) -> list[list[tuple[Any, ...]]]:
    """The rows of ``orders`` by each reader."""
    url = archive.store.url
    given = {"includeHeaders": "true"}
    batch = sl.read(spark, url, topics="orders", **given)
    following = sl.read_stream(spark, url, topics="orders", startingOffsets="earliest", **given, **stream)
    backfill(rig.settings(archive, f"{place}/lake"), SparkRunner(spark))
    with stratalog.open(url) as opened:
        columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
        table = opened.topic("orders").to_arrow(columns=columns)
    return [
        rows_of(batch.toArrow()),
        rows_of(streamed(following, place).toArrow()),
        rig.target_rows(open_target(f"{place}/lake", {}).store),
        rows_of(table),
    ]


@pytest.mark.story
def test_nulls_wherever_there_can_be_nulls(spark: SparkSession, tmp_path: Path, archive_in: Any, rig: Any) -> None:
    """Keys, values, values of headers; nothing is not null; whole batches and objects of nothing but nulls."""
    headers = [(), (Header("", None),), (Header("a", None), Header("a", b""), Header("ä", b"\0\xff"))]
    keys, values = [None, b"", b"k"], [None, b"", b"v" * 300]
    mixed = [
        Record(offset, 1 + offset, keys[offset % 3], values[offset // 3 % 3], headers[offset // 9 % 3])
        for offset in range(270)
    ]
    empty = [Record(offset, 0, None, None) for offset in range(270, 370)]
    archive = archive_in(f"file://{tmp_path}/archive")
    for partition, codec in enumerate((Codec.NONE, Codec.ZSTD)):
        archive.add("orders", partition, build_batch(mixed, codec=codec), build_batch(empty, codec=codec))
    wanted = rig.archive_rows(archive)
    assert len(wanted) == 740
    for found in every_way(spark, tmp_path, archive, rig):
        assert found == wanted


@pytest.mark.story
def test_a_hole_of_a_billion_offsets(spark: SparkSession, tmp_path: Path, archive_in: Any, rig: Any) -> None:
    """Between batches, inside a batch, and before a log start: no reader counts through it, rate limits neither."""
    archive = archive_in(f"file://{tmp_path}/archive")
    sparse = [Record(offset, 5, b"k", b"v%d" % offset) for offset in (0, 1, HOLE, HOLE + 1)]
    wide = build_batch([Record(HOLE + 2, 5, b"k", b"first"), Record(2 * HOLE, 5, b"k", b"last")])
    archive.add("orders", 0, b"".join(build_batch([each]) for each in sparse) + wide, compacted=True)
    archive.add("orders", 0, build_batch([Record(2 * HOLE + 1 + n, 5, b"k", b"dense") for n in range(50)]))
    archive.add("orders", 1, build_batch([Record(n, 5, None, b"gone") for n in range(10)]))
    archive.add("orders", 1, build_batch([Record(10, 5, b"k", b"x"), Record(HOLE, 5, b"k", b"y")]), compacted=True)
    archive.set_log_start("orders", 1, HOLE - 1)
    wanted = [row for row in rig.archive_rows(archive) if row[0] == 0 or row[1] >= HOLE - 1]
    assert len(wanted) == 6 + 50 + 1
    for found in every_way(spark, tmp_path, archive, rig, maxOffsetsPerTrigger="20"):
        assert found == wanted
    # each micro-batch that had rows has written a file of its own
    assert 3 <= len(list((tmp_path / "rows" / "_spark_metadata").iterdir())) <= 12
    url = archive.store.url
    assert sl.count(spark, url, topics="orders") == len(wanted)
    limited = sl.read(spark, url, topics="orders", columns=["offset"], maxRecordsPerPartition=2)
    assert limited.count() == len(wanted)
    assert limited.rdd.getNumPartitions() <= len(wanted)
    bounds = {"startingOffsets": json.dumps({"orders": {"0": 2, "1": HOLE}})}
    assert count_archive(spark, parse_options({"path": url, "subscribe": "orders", **bounds})) == len(wanted) - 2


@pytest.mark.story
def test_schemas_that_drift_lose_no_row(spark: SparkSession, tmp_path: Path, registry: Any, archive_in: Any) -> None:
    """Fields that come, go and change their type from object to object; what no longer fits is null with its reason."""
    older = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": "int"}, {"name": "gone", "type": "string"}],
    }
    added = {"name": "new", "type": ["null", "string"], "default": None}
    newer = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}, added]}
    other = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "string"}]}
    for number, schema in enumerate((older, newer, other), 1):
        registry.put(number, json.dumps(schema))
    registry.put(2, json.dumps(newer), subject="avro-value")
    archive = archive_in(f"file://{tmp_path}/archive")
    written = {
        1: (older, {"n": 1, "gone": "x"}),
        2: (newer, {"n": 2**40, "new": "y"}),
        3: (other, {"n": "three"}),
        9: (other, {"n": "unknown id"}),
    }
    avro, jsons = [], [b'{"n": 1, "gone": "x"}', b'{"n": 2, "new": "y"}', b'{"n": "three"}', b'{"n": {"deep": 1}}']
    for number, (schema, row) in written.items():
        body = BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(schema), row)
        avro.append(b"\0" + number.to_bytes(4, "big") + body.getvalue())
    for topic, values in (("avro", avro), ("json", jsons)):
        segments = [
            build_batch([Record(at * 20 + n, 1, b"k", value) for n in range(20)]) for at, value in enumerate(values)
        ]
        archive.add(topic, 0, *segments, topic_id=topic.encode().ljust(16))

    def found(topic: str, **options: str) -> list[tuple[Any, ...]]:
        rows = sl.read(spark, archive.store.url, topics=topic, **options).orderBy("offset").collect()
        assert [row.offset for row in rows] == list(range(80))
        assert all(row.value is not None or row.valueError for row in rows)
        seen = [(row.value and (row.value.n, row.value.new), bool(row.valueError)) for row in rows]
        assert all(seen[n] == seen[n // 20 * 20] for n in range(80))
        return seen[::20]

    expected = [((1, None), False), ((2**40, "y"), False), (None, True), (None, True)]
    assert found("avro", valueFormat="avro", schemaRegistry=registry.url) == expected
    expected[1] = ((2, "y"), False)
    assert found("json", valueFormat="json", valueSchema="n bigint, new string") == expected


@pytest.mark.story
def test_an_object_that_goes_under_a_running_query(
    spark: SparkSession, tmp_path: Path, archive_in: Any, batches: Any
) -> None:
    """The error names topic, offsets and object, and says what to do; or the loss is accepted, and the rest is read."""
    archive = archive_in(f"file://{tmp_path}/archive")
    archive.add("orders", 0, *[batches(at, 100) for at in range(0, 500, 100)])
    store = open_store(archive.store.url)
    for accepted in ("false", "true"):
        # Offsets of a stream are planned from the manifest; the object goes between two of its micro-batches.
        rows = sl.read_stream(
            spark, store.url, topics="orders", startingOffsets="earliest", maxOffsetsPerTrigger=100,
            failOnDataLoss="false" if accepted == "true" else "true", columns=["offset"],
        )  # fmt: skip
        entry = archive.manifests["orders", 0].entries[3]
        data = archive.store.get(entry.key)[0]

        def lose(batch: DataFrame, number: int, key: str = entry.key) -> None:
            if batch.count() and number == 1:
                store.delete_many([key])

        writer = rows.writeStream.foreachBatch(lose).option("checkpointLocation", str(tmp_path / accepted))
        if accepted == "true":
            run_to_end(spark, writer)
        else:
            with pytest.raises(Exception, match=rf"orders-0, offsets 300 to 399, object {entry.key}: the object that"):
                run_to_end(spark, writer)
        # Three micro-batches before that of the object are done; with the loss accepted, its own, too.
        done = sorted(int(path.name) for path in (tmp_path / accepted / "commits").iterdir() if path.name.isdecimal())
        assert done[:4] == ([0, 1, 2, 3] if accepted == "true" else [0, 1, 2])
        store.put(entry.key, data)
