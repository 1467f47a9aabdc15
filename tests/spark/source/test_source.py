"""``format("stratalog")`` under a real Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from stratalog import spark as stratalog_spark
from stratalog.spark.rows.schema import COLUMNS, spark_ddl
from stratalog.tier import open_store
from stratalog.tier.work.cut_commands import create_cut, end_at
from stratalog.wire.batch import Record, build_batch, check_batch, iter_headers, iter_records
from stratalog.wire.errors import Corrupt

pytestmark = pytest.mark.spark

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def read(spark: SparkSession, archive: Any, **options: str) -> DataFrame:
    chosen = options if {"assign", "subscribePattern"} & set(options) else {"subscribe": "orders", **options}
    return spark.read.format("stratalog").options(**chosen).load(archive.store.url)


def expected_rows(archive: Any, *, damaged: bool = False) -> list[tuple[Any, ...]]:
    """Every row, by a loop over single records of the objects; without those of ``damaged`` batches."""
    rows: list[tuple[Any, ...]] = []
    for (topic, partition), manifest in sorted(archive.manifests.items()):
        for entry in manifest.entries:
            data = archive.store.get(entry.key)[0][: entry.data_bytes]
            for position, header in iter_headers(data):
                if damaged and not is_sound(data, position):
                    continue
                for record in iter_records(data, position):
                    time = EPOCH + timedelta(milliseconds=record.timestamp_ms)
                    headers = [(each.key, each.value) for each in record.headers] or None
                    kind = int(header.is_log_append_time)
                    rows.append((record.key, record.value, topic, partition, record.offset, time, kind, headers))
    return rows


def is_sound(data: bytes, position: int) -> bool:
    try:
        check_batch(data, position)
    except Corrupt:
        return False
    return True


def fingerprint(rows: DataFrame) -> tuple[Any, ...]:
    """Count, and a hash of all columns that Spark computes itself."""
    plain = "transform(headers, h -> concat(h.key, '=', coalesce(hex(h.value), 'null')))"
    columns = ", ".join(name if name != "headers" else plain for name in rows.columns)
    return tuple(rows.selectExpr("count(1)", f"bit_xor(xxhash64({columns}))", "sum(offset)").first() or ())


def test_all_rows_arrive_as_they_were_written(spark: SparkSession, file_archive: Any) -> None:
    """Found by name alone, with headers: count, hash over all columns and order within partitions are right."""
    rows = read(spark, file_archive, includeHeaders="true")
    assert tuple(rows.columns) == COLUMNS
    expected = expected_rows(file_archive)
    assert fingerprint(rows) == fingerprint(spark.createDataFrame(expected, spark_ddl(COLUMNS)))
    assert len(expected) == 1200
    collected = read(spark, file_archive, assign='{"orders":[1]}', maxRecordsPerPartition="70").collect()
    assert [row.offset for row in collected] == list(range(400))
    assert collected[3].timestamp.replace(tzinfo=UTC) == EPOCH + timedelta(milliseconds=1_013_000)


@pytest.mark.story
def test_columns_can_be_left_out(spark: SparkSession, file_archive: Any) -> None:
    """By the option, by a user's schema, also by one that forbids nulls, and in SQL."""
    assert read(spark, file_archive, columns="partition").groupBy("partition").count().count() == 3
    reader = spark.read.format("stratalog").schema("offset bigint not null, value binary").option("subscribe", "orders")
    rows = reader.load(file_archive.store.url)
    assert rows.columns == ["offset", "value"]
    assert rows.selectExpr("sum(offset)").first() == (3 * 79_800,)
    spark.sql(
        f"CREATE TEMPORARY VIEW o USING stratalog OPTIONS (archive '{file_archive.store.url}', subscribe 'orders')"
    )
    assert spark.sql("SELECT count(*), max(offset) FROM o").first() == (1200, 399)
    spark.catalog.dropTempView("o")


@pytest.mark.story
def test_times_and_offsets_bound_what_is_read(spark: SparkSession, file_archive: Any) -> None:
    """Each partition begins and ends at its own record of the time; small tasks are as many as asked for."""
    rows = read(spark, file_archive, startingTimestamp="1150000", endingTimestamp="1160000", minPartitions="5")
    found = {
        row.partition: (row.low, row.n)
        for row in rows.groupBy("partition")
        .agg({"offset": "min", "*": "count"})
        .toDF("partition", "low", "n")
        .collect()
    }
    assert found == {0: (150, 10), 1: (140, 10), 2: (130, 10)}
    assert rows.rdd.getNumPartitions() >= 5
    bounded = read(
        spark, file_archive, startingOffsets='{"orders":{"0":399}}', endingOffsets='{"orders":{"1":1,"2":0}}'
    )
    assert sorted((row.partition, row.offset) for row in bounded.collect()) == [(0, 399), (1, 0)]


@pytest.mark.story
@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_one_dataframe_answers_many_filters(spark: SparkSession, file_archive: Any, pushdown: str) -> None:
    """Also where Spark pushes filters to Python sources, and shares what they say between scans of a DataFrame."""
    spark.conf.set(PUSHDOWN, pushdown)
    try:
        rows = read(spark, file_archive)
        early, late = rows.where("offset < 100"), rows.where("partition = 1 AND offset >= 350")
        assert [early.count(), rows.count(), late.count(), early.union(late).count()] == [300, 1200, 50, 350]
        assert rows.where("timestamp < timestamp'1970-01-01 00:18:20' AND topic = 'orders'").count() == 270
    finally:
        spark.conf.set(PUSHDOWN, "false")


@pytest.mark.story
def test_a_cut_is_read_as_it_was(spark: SparkSession, tmp_path: Path, file_archive: Any) -> None:
    """By its name, next to the topic itself; every column is what it was, the topic's name apart."""
    store = open_store(f"file://{tmp_path}/copy")
    for info in file_archive.store.list(""):
        if not info.key.startswith("leases/"):
            store.put(info.key, file_archive.store.get(info.key)[0])
    create_cut(store, "early", now_ms=7, topics=["orders"], end_of=end_at(1_150_000))
    rows = spark.read.format("stratalog").option("subscribe", "orders@early,orders").load(store.url)
    assert {row.topic: row["count"] for row in rows.groupBy("topic").count().collect()} == {
        "orders": 1200,
        "orders@early": 150 + 140 + 130,
    }
    expected = read(spark, file_archive, endingTimestamp="1150000").drop("topic")
    assert fingerprint(rows.where("topic = 'orders@early'").drop("topic")) == fingerprint(expected)


@pytest.fixture
def broken_archive(file_archive: Any) -> Iterator[Any]:
    """The archive without the second object of partition 0 (offsets 100 to 199, times 1,100,000 to 1,199,000)."""
    entry = file_archive.manifests["orders", 0].entries[1]
    data, _ = file_archive.store.get(entry.key)
    file_archive.store.delete_many([entry.key])
    yield file_archive
    file_archive.store.put(entry.key, data)


@pytest.mark.story
def test_missing_data_is_an_error_or_skipped(spark: SparkSession, broken_archive: Any) -> None:
    """failOnDataLoss decides, in the driver for offsets outside, in an executor for an object that is gone."""
    key = broken_archive.manifests["orders", 0].entries[1].key
    with pytest.raises(Exception, match=key):
        read(spark, broken_archive).count()
    assert read(spark, broken_archive, failOnDataLoss="false").count() == 1100
    beyond = {"endingOffsets": '{"orders":{"1":401}}'}
    with pytest.raises(Exception, match=r"orders-1: the ending offset 401 is beyond offset 400.*failOnDataLoss"):
        read(spark, broken_archive, **beyond).count()
    assert read(spark, broken_archive, failOnDataLoss="false", **beyond).count() == 1100


@pytest.fixture
def damaged_archive(file_archive: Any) -> Iterator[Any]:
    """The archive with one byte changed in the batch of offsets 150 to 159 of partition 0."""
    entry = file_archive.manifests["orders", 0].entries[1]
    data, _ = file_archive.store.get(entry.key)
    position = next(at for at, header in iter_headers(data[: entry.data_bytes]) if header.base_offset == 150)
    changed = bytearray(data)
    changed[position + 65] ^= 1
    file_archive.store.put(entry.key, bytes(changed))
    yield file_archive
    file_archive.store.put(entry.key, data)


@pytest.mark.story
def test_damage_is_an_error_or_set_aside(spark: SparkSession, damaged_archive: Any, tmp_path: Path) -> None:
    """badRecords decides; what is set aside is exactly one batch, told once as a table, the rest is as it was."""
    key = damaged_archive.manifests["orders", 0].entries[1].key
    with pytest.raises(Exception, match=rf"orders-0.*{key}.*offsets 150 to 159 are damaged"):
        read(spark, damaged_archive).agg({"value": "max"}).collect()
    place = str(tmp_path / "bad")
    rows = read(spark, damaged_archive, badRecords="quarantine", badRecordsPath=place, includeHeaders="true")
    sound = expected_rows(damaged_archive, damaged=True)
    assert fingerprint(rows) == fingerprint(spark.createDataFrame(sound, spark_ddl(COLUMNS)))
    assert len(sound) == 1190
    told = stratalog_spark.bad_records(spark, place).select("topic", "partition", "startOffset", "endOffset", "object")
    assert [tuple(row) for row in told.collect()] == [("orders", 0, 150, 160, key)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "earliest"}, "unknown option 'startingoffset'; did you mean 'startingOffsets'"),
        ({"subscribe": "nope"}, "topic 'nope' is not in the archive file://"),
        ({"startingOffsets": '{"orders":{"9":1}}'}, "'startingOffsets' names orders-9, which is not among"),
        ({"startingOffsets": '{"orders":{"0":1}}', "strictOffsets": "true"}, "names no offset for orders-1"),
    ],
)
def test_mistakes_are_reported(spark: SparkSession, file_archive: Any, options: dict[str, str], message: str) -> None:
    """The message reaches the user through Spark."""
    with pytest.raises(Exception, match=message):
        read(spark, file_archive, **options).count()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.story),
        pytest.param({"topic": "x"}, marks=pytest.mark.story),
        {"subscribe": "x", "path": "x"},
    ],
)
def test_writing_is_refused(spark: SparkSession, file_archive: Any, tmp_path: Path, options: dict[str, str]) -> None:
    """It says what to do instead, whatever options a writer is given."""
    rows = read(spark, file_archive)
    with pytest.raises(Exception, match="an archive is written by its brokers"):
        rows.write.format("stratalog").options(**options).mode("append").save()
    if "path" not in options:
        given = {"subscribe": "orders", "path": file_archive.store.url}
        stream = spark.readStream.format("stratalog").options(**given).load().writeStream.format("stratalog")
        with pytest.raises(Exception, match="an archive is written by its brokers"):
            stream.options(**options, checkpointLocation=str(tmp_path)).start().awaitTermination()


@pytest.mark.parametrize("options", [{}, {"topic": "x"}])
def test_a_read_without_a_topic_is_a_mistake_at_load(
    spark: SparkSession, file_archive: Any, options: dict[str, str]
) -> None:
    """Though it might have been a writer."""
    with pytest.raises(Exception, match=r"one of the following options must be specified|unknown option 'topic'"):
        spark.read.format("stratalog").options(**options).load(file_archive.store.url)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "'startingOffsets' can't be 'latest' for batch queries"),
        ({"endingOffsets": "earliest"}, "'endingOffsets' can't be 'earliest' for batch queries"),
    ],
)
def test_options_of_streams_alone_are_refused(
    spark: SparkSession, file_archive: Any, options: dict[str, str], message: str
) -> None:
    """The error comes when the query runs, because at load Spark does not say yet which of both it will be."""
    with pytest.raises(Exception, match=message):
        read(spark, file_archive, **options).count()


@pytest.mark.story
def test_the_functions_of_the_package(spark: SparkSession, file_archive: Any) -> None:
    """read() is the short form; an empty pattern match is an empty table; register() by hand also works."""
    rows = stratalog_spark.read(spark, file_archive.store.url, topics=["orders"], columns="offset", minPartitions=2)
    assert rows.columns == ["offset"]
    assert rows.count() == 1200
    assert read(spark, file_archive, subscribePattern="nothing.*").count() == 0
    stratalog_spark.register(spark)
    assert read(spark, file_archive).limit(3).count() == 3
    stream = stratalog_spark.read_stream(spark, file_archive.store.url, topics=["orders"], columns=["offset"])
    assert (stream.isStreaming, stream.columns) == (True, ["offset"])


@pytest.mark.story
def test_the_archive_is_read_from_s3(spark: SparkSession, file_archive: Any, s3_endpoint: str) -> None:
    """The same rows, over HTTP, with options that name the endpoint and the credentials."""
    from stratalog.tier import open_store

    store = open_store(
        "s3://archive/some/prefix", endpoint_url=s3_endpoint, access_key_id="id", secret_access_key="secret"
    )
    for info in file_archive.store.list(""):
        store.put(info.key, file_archive.store.get(info.key)[0])
    options = {"s3.endpoint": s3_endpoint, "s3.access-key": "id", "s3.secret-key": "secret"}
    rows = spark.read.format("stratalog").options(subscribe="orders", includeHeaders="true", **options)
    assert fingerprint(rows.load("s3://archive/some/prefix")) == fingerprint(
        read(spark, file_archive, includeHeaders="true")
    )


def modules_by_file() -> list[tuple[str, str]]:
    """``(name, real path)`` of every module of this process that has a file."""
    import sys

    files = {name: getattr(module, "__file__", None) for name, module in sorted(sys.modules.items())}
    return [(name, os.path.realpath(path)) for name, path in files.items() if path]


def inspecting_source(url: str, modules: Callable[[], list[tuple[str, str]]]) -> type[DataSource]:
    """A data source that reads the archive as ours does and then tells what is loaded where it ran."""

    class Reader(DataSourceReader):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def partitions(self) -> list[InputPartition]:
            tasks = [task.value for task in self.inner.partitions()]
            return [InputPartition((tasks, modules()))]

        def read(self, partition: InputPartition) -> Iterator[tuple[str, str, str]]:
            tasks, planned = partition.value
            assert sum(batch.num_rows for task in tasks for batch in self.inner.read(InputPartition(task))) == 1200
            yield from (("driver", *each) for each in planned)
            yield from (("executor", *each) for each in modules())

    class Inspecting(DataSource):
        @classmethod
        def name(cls) -> str:
            return "inspecting"

        def schema(self) -> str:
            return "place string, name string, path string"

        def reader(self, schema: Any) -> DataSourceReader:
            from pyspark.sql.types import BinaryType, StructField, StructType

            from pyspark_stratalog import DefaultSource  # type: ignore[attr-defined]

            inner = DefaultSource({"path": url, "subscribe": "orders", "columns": "value"})
            return Reader(inner.reader(StructType([StructField("value", BinaryType())])))

    return Inspecting


@pytest.mark.story
def test_no_module_is_loaded_under_two_names(spark: SparkSession, file_archive: Any) -> None:
    """Neither in the worker that plans nor in one that reads: two copies would mean two of every class."""
    spark.dataSource.register(inspecting_source(file_archive.store.url, modules_by_file))
    loaded = spark.read.format("inspecting").load().collect()
    for place in ("driver", "executor"):
        ours = [(row.name, row.path) for row in loaded if row.place == place]
        names: dict[str, str] = {}
        for name, path in ours:
            assert names.setdefault(path, name) == name or not name.startswith("stratalog")
        short = {"spark", "tier", "wire", "hot", "metadata", "broker"}
        assert not [name for name, _ in ours if name.partition(".")[0] in short]
        assert any(name == "stratalog.spark.rows.decode" for name, _ in ours)


@pytest.mark.story
def test_a_planned_read_is_leased_until_its_last_task_has_read_all(spark: SparkSession, file_archive: Any) -> None:
    """One lease a plan; none where that is switched off, and none is left of a plan that failed or found nothing."""
    from stratalog.tier.manifests.leases import list_leases

    before = {each.uuid for each in list_leases(file_archive.store)}

    def leases() -> list[int]:
        new = [each for each in list_leases(file_archive.store) if each.uuid not in before]
        return [each.expires_ms - each.created_ms for each in new]

    reader = spark.read.format("stratalog").options(subscribe="orders", minPartitions="4", leaseSeconds="600")
    assert leases() == []
    rows = reader.option("lease", "false").load(file_archive.store.url).toLocalIterator()
    next(rows)
    assert leases() == []
    rows = reader.option("lease", "true").load(file_archive.store.url).toLocalIterator()
    next(rows)
    assert leases() == [600_000]
    assert sum(1 for _ in rows) == 1199
    assert leases() == []
    assert reader.option("endingTimestamp", "0").load(file_archive.store.url).count() == 0
    with pytest.raises(Exception, match="did you mean 'orders'"):
        reader.option("subscribe", "oders").load(file_archive.store.url).count()
    assert leases() == []


@pytest.mark.story
def test_values_are_decoded_and_what_cannot_be_is_kept(
    spark: SparkSession, tmp_path: Path, registry: Any, memory_archive: Any
) -> None:
    """JSON by its schema, Avro by the one each row was written with; row for row what was produced."""
    kinds = {
        "n": "int",
        "sizes": {"type": "map", "values": "long"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "at": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
    }
    avro = {"type": "record", "name": "R", "fields": [{"name": each, "type": kind} for each, kind in kinds.items()]}
    avro_rows = [
        {"n": n, "sizes": {"a": n}, "price": Decimal(n) / 4, "at": EPOCH + timedelta(hours=n) if n % 2 else None}
        for n in range(300)
    ]
    registry.put(7, json.dumps(avro), subject="paid-value")
    memory_archive.store = open_store(tmp_path.as_uri())
    jsons, avros = [], []
    for offset in range(300):
        row = json.dumps({"n": offset, "tags": ["a"] * (offset % 3), "more": {}}).encode()
        jsons.append(b"broken" if offset == 7 else None if offset == 8 else row)
        body = BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(avro), avro_rows[offset])
        avros.append(b"broken" if offset == 7 else None if offset == 8 else b"\0\0\0\0\7" + body.getvalue())
    for topic, values in (("orders", jsons), ("paid", avros)):
        batch = build_batch([Record(n, 1, b"k%d" % n, value) for n, value in enumerate(values)], leader_epoch=0)
        memory_archive.add(topic, 0, bytes(batch), topic_id=topic.encode().ljust(16))

    def rows(topic: str, **options: str) -> list[Any]:
        reader = spark.read.format("stratalog").option("subscribe", topic).option("keyFormat", "string")
        return reader.options(**options).load(tmp_path.as_uri()).orderBy("offset").collect()

    found = rows("orders", valueFormat="json", valueSchema="n int, tags array<string>")
    assert [row.key for row in found] == [f"k{n}" for n in range(300)]
    good = [n for n in range(300) if n not in {7, 8}]
    assert [(row.value.n, row.value.tags) for row in found if row.value] == [(n, ["a"] * (n % 3)) for n in good]
    assert {row.offset: row.valueError for row in found if row.valueError} == {
        7: "no JSON of this schema: it is no object in braces"
    }
    found = rows("paid", valueFormat="avro", schemaRegistry=registry.url, columns="offset,value,valueError")
    assert [row.value.asDict(recursive=True) | {"at": None} for row in found if row.value] == [
        avro_rows[n] | {"at": None} for n in good
    ]
    assert [row.at and row.at.timestamp() for row in (row.value for row in found) if row] == [
        avro_rows[n]["at"] and avro_rows[n]["at"].timestamp() for n in good
    ]
    assert [row.offset for row in found if row.valueError] == [7]
