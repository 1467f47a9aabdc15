"""Records of a hundred megabytes, from a producer to every reader."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

import stratalog
from stratalog import spark as sl
from stratalog.tier import open_store

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(380)]

RECORD_BYTES = 100 << 20
MESSAGE_BYTES = 110 << 20
ROOM = {"message.max.bytes": MESSAGE_BYTES, "socket.request.max.bytes": MESSAGE_BYTES}


def hashed(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


def spark_rows(rows: DataFrame) -> list[tuple[int, str]]:
    """Hashes are taken where the rows are."""
    return sorted((row[0], row[1]) for row in rows.selectExpr("offset", "sha2(value, 256)").collect())


def arrow_rows(table: pa.Table) -> list[tuple[int, str]]:
    """The same of an Arrow table."""
    columns = (table.column(name).to_pylist() for name in ("offset", "value"))
    return sorted((offset, hashed(value)) for offset, value in zip(*columns, strict=True))


@pytest.mark.stratalog_settings(ROOM)
def test_records_of_a_hundred_mebibytes(spark: SparkSession, tmp_path: Path, stratalog_broker: Any) -> None:
    """Compressed or not, among small ones: the same bytes by batch, stream, backfill and Python."""
    stratalog_broker.create_topic(
        "big", remote_storage_enable="true", max_message_bytes=MESSAGE_BYTES, segment_ms=2000, retention_ms=-1
    )
    block = os.urandom(1 << 20)
    values = [b"small", block * 100, b"between", os.urandom(1 << 16) * 1600, b"last"]
    client = {"bootstrap.servers": stratalog_broker.bootstrap_servers, "message.max.bytes": MESSAGE_BYTES}
    for number, value in enumerate(values):
        codec = "zstd" if number == 3 else "none"
        producer = Producer({**client, "compression.type": codec, "queue.buffering.max.kbytes": 300 << 10})
        producer.produce("big", value)
        assert producer.flush(60) == 0
    unified = stratalog_broker.node.partitions.by_name("big", 0)
    end = time.monotonic() + 120
    while unified.remote.end_offset < len(values):
        assert time.monotonic() < end, "it is not archived"
        time.sleep(0.05)
    copied = open_store(f"file://{tmp_path}/archive")
    for info in stratalog_broker.store.list(""):
        copied.put(info.key, stratalog_broker.store.get(info.key)[0])
    wanted = [(offset, hashed(value)) for offset, value in enumerate(values)]
    assert spark_rows(sl.read(spark, copied.url, topics="big")) == wanted
    # Hashed in the stream: to write such rows Spark's own Parquet writer needs more than this session's gigabyte.
    rows = sl.read_stream(spark, copied.url, topics="big", startingOffsets="earliest")
    query = rows.selectExpr("offset", "sha2(value, 256) AS hash").writeStream.format("parquet")
    query = query.option("checkpointLocation", f"{tmp_path}/c").option("path", f"{tmp_path}/rows")
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(tuple(row) for row in spark.read.parquet(f"{tmp_path}/rows").collect()) == wanted
    assert sl.to_parquet(spark, copied.url, f"{tmp_path}/lake", topic="big").rows == len(values)
    files = [pq.read_table(path, columns=["offset", "value"]) for path in (tmp_path / "lake").rglob("big+*.parquet")]
    assert arrow_rows(pa.concat_tables(files)) == wanted
    with stratalog.open(copied.url) as archive:
        assert arrow_rows(archive.topic("big").to_arrow(columns=["offset", "value"])) == wanted
