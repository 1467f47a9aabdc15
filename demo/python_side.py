"""Reads the bucket with Python, without broker and Spark; prints its findings as one JSON line."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa

import stratalog
from demo.fingerprint import partition_digest

__all__ = ["main"]

FLIGHT = "month int, carrier string, dep_delay double"


def _rows(stream: pa.RecordBatchReader) -> Iterator[tuple[int, bytes | None, bytes | None, int]]:
    for batch in stream:
        times = batch["timestamp"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        columns = (batch["offset"], batch["key"], batch["value"], times)
        yield from zip(*(column.to_pylist() for column in columns), strict=True)


def main() -> None:
    """Read the topics with `stratalog.open`, and ask DuckDB about one whose values are decoded on the way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--topics", required=True)
    arguments = parser.parse_args()
    topics = arguments.topics.split(",")
    found: dict[str, Any] = {"duckdb": duckdb.__version__}
    columns = ["offset", "key", "value", "timestamp"]
    with stratalog.open(arguments.bucket) as archive:
        for name in topics:
            started = time.monotonic()
            topic = archive.topic(name)
            found[name] = {
                "partitions": {
                    number: partition_digest(number, _rows(topic.scan(partitions=[number], columns=columns)))
                    for number in topic.partitions()
                },
                "seconds": time.monotonic() - started,
            }
        flights = archive.topic(topics[0], valueFormat="json", valueSchema=FLIGHT).dataset(columns=["value"])
        with duckdb.connect() as connection:
            connection.register("flights", flights)
            found["by_carrier"] = connection.sql(
                "select value.carrier, count(*), round(avg(value.dep_delay), 2) from flights group by 1 order by 1"
            ).fetchall()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
