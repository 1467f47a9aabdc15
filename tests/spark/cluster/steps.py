"""A program for spark-submit: ``steps.py JSON``, a list of steps ``[name, arguments]``; prints one JSON line of answers.

It is run where only Spark, stratalog and what that stands on can be imported: nothing of the tests.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from stratalog import spark as sl


def digest(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """How many rows, and a hash over all columns of all of them, sorted by partition and offset."""
    sha, count = hashlib.sha256(), 0
    for row in sorted(rows, key=lambda row: row[:2]):
        sha.update(repr(row).encode())
        count += 1
    return [count, sha.hexdigest()]


def rows_of(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    """As `archive_rows` of the rig gives them."""
    table = frame.toArrow()
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    for row, time_us in zip(table.drop_columns("timestamp").to_pylist(), times, strict=True):
        headers = None if row["headers"] is None else tuple((one["key"], one["value"]) for one in row["headers"])
        yield row["partition"], row["offset"], time_us, row["timestampType"], row["key"], row["value"], headers


def batch(spark: SparkSession, archive: str, **options: str) -> list[Any]:
    """A batch read."""
    reader = spark.read.format("stratalog").options(subscribe="orders", includeHeaders="true", **options)
    return digest(rows_of(reader.load(archive)))


def read(spark: SparkSession, archive: str, **options: str) -> list[Any]:
    """The same by `sl.read`."""
    return digest(rows_of(sl.read(spark, archive, topics="orders", includeHeaders="true", **options)))


def count(spark: SparkSession, archive: str, **options: str) -> int:
    """By manifests and headers."""
    return sl.count(spark, archive, topics="orders", **options)


def stream(spark: SparkSession, archive: str, place: str, **options: str) -> int:
    """Converts present records to Parquet below ``place``; the number of rows there afterwards."""
    rows = sl.read_stream(spark, archive, topics="orders", startingOffsets="earliest", includeHeaders="true", **options)
    query = (
        rows.writeStream.format("parquet")
        .option("checkpointLocation", f"{place}/checkpoint")
        .option("path", f"{place}/rows")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.read.parquet(f"{place}/rows").count()


def to_parquet(spark: SparkSession, archive: str, target: str, **options: str) -> int:
    """A backfill by its Python name."""
    return sl.to_parquet(spark, archive, target, topic="orders", **options).rows


def write_parquet(spark: SparkSession, archive: str, target: str) -> list[Any]:
    """By Spark's own writer, and read back by Spark's own reader."""
    sl.read(spark, archive, topics="orders", includeHeaders="true").write.parquet(target)
    return digest(rows_of(spark.read.parquet(target)))


def parquet(spark: SparkSession, place: str) -> list[Any]:
    """Files of another program."""
    return digest(rows_of(spark.read.parquet(place)))


def where(spark: SparkSession) -> dict[str, list[str]]:
    """From where the driver and the executors have stratalog, and what of the environment executors see."""

    def look(_: Iterator[int]) -> Iterator[str]:
        import os

        found = importlib.util.find_spec("stratalog")
        names = [name for name in os.environ if name.startswith("AWS_")]
        yield json.dumps([found.origin if found else None, *sorted(names)])

    there = spark.sparkContext.parallelize(range(8), 8).mapPartitions(look).distinct().collect()
    here = importlib.util.find_spec("stratalog")
    return {"driver": [str(here and here.origin)], "executors": sorted(there)}


STEPS = {step.__name__: step for step in (batch, read, count, stream, to_parquet, write_parquet, parquet, where)}


def main() -> None:
    """Take the steps one after the other."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if "--register" in sys.argv:
        sl.register(spark)
    answers = [STEPS[name](spark, **arguments) for name, arguments in json.loads(sys.argv[1])]
    print(json.dumps(answers), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
