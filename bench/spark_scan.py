"""A full scan of the bucket by Spark, every column hashed, against a scan of the same rows in zstd Parquet."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.archives import TIERED, json_values, wait_archived
from bench.cell import Cell, Line
from bench.librdkafka import produce
from bench.outcome import Bound, Outcome, interleaved, median
from bench.servers import BrokerServer
from bench.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["CELL", "main"]

PARTITION_COUNT = 4
SEGMENT_BYTES = 32 << 20
VALUE_BYTES = 100
MESSAGE_COUNT = 4_000_000
WARM_RUNS = 2

_LINE = Line("spark-scan", "rows a second / that of zstd Parquet", Bound(">=", 0.40))
_COUNT = Line("spark-count", "million rows a second, stratalog.spark.count()", Bound(">=", 20.0))
_FRAME_COUNT = Line("spark-frame-count", "million rows a second, DataFrame.count()", Bound(">=", 3.0))


def _measure(settings: Settings) -> list[Outcome]:
    values = json_values(4000, VALUE_BYTES)
    with settings.folder(settings.disk) as folder:
        with BrokerServer.start(folder / "data") as broker:
            broker.create_topic("rows", PARTITION_COUNT, segment_bytes=str(SEGMENT_BYTES), **TIERED)
            produce(broker.port, "rows", values, MESSAGE_COUNT, acks="all", partitioner="random")
            rows = sum(wait_archived(broker, "rows", PARTITION_COUNT))
            bucket = broker.bucket
        command = [sys.executable, "-m", "bench.spark_scan", "--bucket", bucket, "--folder", str(folder)]
        command += ["--repetitions", str(settings.repetitions)]
        with (folder / "spark.log").open("w") as log:
            ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
        if ran.returncode:
            raise SystemExit(f"{' '.join(command)}\n{(folder / 'spark.log').read_text()[-4000:]}")
    found = json.loads(ran.stdout.splitlines()[-1])
    if found["rows"] != rows:
        raise SystemExit(f"Spark found {found['rows']} rows, {rows} are archived")
    seconds = {kind: median(each) for kind, each in found["seconds"].items()}
    for kind, each in found["seconds"].items():
        print(f"  {kind:8} {', '.join(f'{one:.2f}' for one in each)} s, {rows} rows", file=sys.stderr, flush=True)
    return [
        _LINE.outcome(
            seconds["parquet"] / seconds["archive"],
            rows=rows,
            archive_rows_per_second=rows / seconds["archive"],
            parquet_rows_per_second=rows / seconds["parquet"],
            parquet_megabytes=found["parquet_bytes"] / 1e6,
        ),
        _COUNT.outcome(rows / seconds["count"] / 1e6, seconds=seconds["count"]),
        _FRAME_COUNT.outcome(rows / seconds["frame-count"] / 1e6, seconds=seconds["frame-count"]),
    ]


def _scan(frame: DataFrame) -> tuple[int, int]:
    """The number of rows and a sum that depends on every column of each."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    hashed = F.xxhash64(*sorted(frame.columns)).cast("decimal(38,0)")
    row = frame.agg(F.count("*").alias("rows"), F.sum(hashed).alias("hash")).collect()[0]
    return int(row["rows"]), int(row["hash"])


def main(arguments: list[str] | None = None) -> None:
    """The Spark side: write the rows as Parquet, scan both in turns, print one line of JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, required=True)
    given = parser.parse_args(arguments)
    from stratalog import spark as stratalog_spark

    spark = stratalog_spark.session("local[2]", app_name="bench", **{"spark.driver.memory": "2g"})
    parquet = given.folder / "parquet"

    def archive() -> DataFrame:
        return spark.read.format("stratalog").option("subscribe", "rows").load(given.bucket)

    archive().write.option("compression", "zstd").parquet(str(parquet))
    kinds: dict[str, Callable[[], DataFrame]] = {
        "archive": archive,
        "parquet": lambda: spark.read.parquet(str(parquet)),
    }
    wanted = {_scan(frame()) for frame in kinds.values() for _ in range(WARM_RUNS)}
    if len(wanted) != 1:
        raise SystemExit(f"the rows differ: {wanted}")

    def run(kind: str, _: int) -> float:
        started = time.monotonic()
        found = _scan(kinds[kind]())
        if found not in wanted:
            raise SystemExit(f"{kind}: the rows differ: {found}")
        return time.monotonic() - started

    counts: dict[str, Callable[[], int]] = {
        "count": lambda: stratalog_spark.count(spark, given.bucket, topics="rows"),
        "frame-count": lambda: archive().count(),
    }

    def count(kind: str, _: int) -> float:
        started = time.monotonic()
        if counts[kind]() != next(iter(wanted))[0]:
            raise SystemExit(f"{kind}: the number of rows differs")
        return time.monotonic() - started

    seconds = interleaved(tuple(kinds), given.repetitions, run)
    seconds |= interleaved(tuple(counts), given.repetitions, count)
    size_bytes = sum(path.stat().st_size for path in parquet.glob("*.parquet"))
    print(json.dumps({"rows": wanted.pop()[0], "seconds": seconds, "parquet_bytes": size_bytes}))
    spark.stop()


CELL = Cell(_LINE.cell, (_LINE, _COUNT, _FRAME_COUNT), _measure)

if __name__ == "__main__":
    main()
