"""Reads the bucket with Spark while no broker runs; prints its findings as one JSON line."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from demo.fingerprint import partition_digest
from stratalog import spark as stratalog_spark

__all__ = ["main"]

FLIGHT = "year int, month int, day int, carrier string, origin string, dest string, dep_delay double, flight int"


def _digest(table: pa.Table) -> pa.Table:
    """One partition's rows, in offset order, to (partition, count, sha256)."""
    table = table.sort_by("offset")
    times = table["timestamp"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    columns = (table["offset"], table["key"], table["value"], times)
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    partition = table["partition"][0].as_py()
    count, digest = partition_digest(partition, rows)
    schema = pa.schema([("partition", pa.int32()), ("count", pa.int64()), ("digest", pa.string())])
    return pa.table([[partition], [count], [digest]], schema=schema)


def fingerprint(frame: DataFrame) -> dict[int, tuple[int, str]]:
    """Count and order-sensitive hash of every partition, computed where the data is."""
    columns = frame.select("partition", "offset", "key", "value", "timestamp")
    rows = columns.groupBy("partition").applyInArrow(_digest, "partition int, count long, digest string").collect()
    return {row["partition"]: (row["count"], row["digest"]) for row in rows}


def _delays(spark: SparkSession, archive: DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    flight = F.from_json(F.col("value").cast("string"), FLIGHT)
    archive.select(flight.alias("flight")).select("flight.*").createOrReplaceTempView("flights")
    by_carrier = spark.sql(
        "SELECT carrier, count(*) AS flights, round(avg(dep_delay), 2) AS delay FROM flights "
        "GROUP BY carrier ORDER BY carrier"
    ).toPandas()
    by_month = spark.sql(
        "SELECT month, count(*) AS flights, round(avg(dep_delay), 2) AS delay FROM flights GROUP BY month ORDER BY month"
    ).toPandas()
    return by_carrier, by_month


def _chart(by_month: pd.DataFrame, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    axes.bar(by_month["month"], by_month["delay"], color="#3b6ea5")
    axes.set_xticks(range(1, 13), ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
    axes.set_ylabel("mean departure delay, minutes")
    axes.set_title("Flights from New York, 2013, read by Spark from the archive")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Read the topics, query one, write Parquet beside the archive, read that back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--topics", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    spark = stratalog_spark.session(app_name="stratalog demo")
    found: dict[str, Any] = {"spark": spark.version}
    topics = arguments.topics.split(",")
    for topic in topics:
        started = time.monotonic()
        archive = spark.read.format("stratalog").option("subscribe", topic).load(arguments.bucket)
        found[topic] = {"count": archive.count(), "partitions": fingerprint(archive)}
        found[topic]["seconds"] = time.monotonic() - started
    archive = spark.read.format("stratalog").option("subscribe", topics[0]).load(arguments.bucket)
    started = time.monotonic()
    by_carrier, by_month = _delays(spark, archive)
    found["sql_seconds"] = time.monotonic() - started
    found["by_carrier"] = by_carrier.to_numpy().tolist()
    found["by_month"] = by_month.to_numpy().tolist()
    lake = arguments.out / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    started = time.monotonic()
    rows = [stratalog_spark.to_parquet(spark, arguments.bucket, str(lake), topic=topics[0]).rows for _ in range(2)]
    found["parquet"] = {
        "seconds": time.monotonic() - started,
        "rows": rows,
        "partitions": fingerprint(spark.read.parquet(str(lake))),
        "bytes": sum(file.stat().st_size for file in lake.rglob("*.parquet")),
    }
    chart = arguments.out / "delay-by-month.png"
    _chart(by_month, chart)
    found["chart"] = str(chart)
    spark.stop()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
