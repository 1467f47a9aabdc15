"""A backfill of an archive to Parquet files, against ``df.write.parquet`` of the same source; both with zstd."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.archives import TIERED, json_values, wait_archived
from bench.cell import Cell, Line
from bench.librdkafka import produce
from bench.outcome import Bound, Outcome, interleaved, median
from bench.servers import BrokerServer
from bench.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CELL", "main"]

PARTITION_COUNT = 4
SEGMENT_BYTES = 32 << 20
VALUE_BYTES = 100
MESSAGE_COUNT = 4_000_000
CORES = 2

_LINE = Line("spark-convert", "seconds of df.write.parquet / of the backfill", Bound(">=", 2.0))


def _measure(settings: Settings) -> list[Outcome]:
    values = json_values(4000, VALUE_BYTES)
    with settings.folder(settings.disk) as folder:
        with BrokerServer.start(folder / "data") as broker:
            broker.create_topic("rows", PARTITION_COUNT, segment_bytes=str(SEGMENT_BYTES), **TIERED)
            produce(broker.port, "rows", values, MESSAGE_COUNT, acks="all", partitioner="random")
            rows = sum(wait_archived(broker, "rows", PARTITION_COUNT))
            bucket = broker.bucket
        command = [sys.executable, "-m", "bench.spark_convert", "--bucket", bucket, "--folder", str(folder)]
        command += ["--repetitions", str(settings.repetitions)]
        with (folder / "spark.log").open("w") as log:
            ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
        if ran.returncode:
            raise SystemExit(f"{' '.join(command)}\n{(folder / 'spark.log').read_text()[-4000:]}")
    found = json.loads(ran.stdout.splitlines()[-1])
    if found["rows"] != rows:
        raise SystemExit(f"Spark found {found['rows']} rows, {rows} are archived")
    seconds = {kind: median(found["seconds"][kind]) for kind in ("backfill", "write")}
    for kind, each in found["seconds"].items():
        print(f"  {kind:8} {', '.join(f'{one:.2f}' for one in each)} s, {rows} rows", file=sys.stderr, flush=True)
    return [
        _LINE.outcome(
            seconds["write"] / seconds["backfill"],
            rows=rows,
            rows_per_second=rows / seconds["backfill"],
            rows_per_second_and_core=rows / seconds["backfill"] / CORES,
            write_rows_per_second=rows / seconds["write"],
            backfill_megabytes=found["bytes"]["backfill"] / 1e6,
            write_megabytes=found["bytes"]["write"] / 1e6,
        )
    ]


def _hashed(frame: DataFrame) -> tuple[int, int]:
    """The number of rows and a sum that depends on every column of each."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    from stratalog.spark.schema import COLUMNS

    plain = "transform(headers, h -> concat(h.key, '=', coalesce(hex(h.value), 'null')))"
    columns = ", ".join(name if name != "headers" else plain for name in COLUMNS)
    hashed = F.expr(f"xxhash64({columns})").cast("decimal(38,0)")
    row = frame.agg(F.count("*").alias("rows"), F.sum(hashed).alias("hash")).collect()[0]
    return int(row["rows"]), int(row["hash"])


def _backfill(spark: SparkSession, bucket: str, target: Path) -> None:
    from stratalog.spark.backfill import BackfillSettings, backfill
    from stratalog.spark.backfill_spark import SparkRunner
    from stratalog.spark.options import parse_options

    read = parse_options({"archive": bucket, "subscribe": "rows"})
    backfill(BackfillSettings("rows", read, str(target), core_count=CORES), SparkRunner(spark))


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def main(arguments: list[str] | None = None) -> None:
    """The Spark side: write the rows in both ways in turns, compare what was written, print one line of JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, required=True)
    given = parser.parse_args(arguments)
    from stratalog import spark as stratalog_spark

    spark = stratalog_spark.session(f"local[{CORES}]", app_name="bench", **{"spark.driver.memory": "2g"})

    def archive() -> DataFrame:
        options = {"subscribe": "rows", "includeHeaders": "true"}
        return spark.read.format("stratalog").options(**options).load(given.bucket)

    def run(kind: str, _: int) -> float:
        target = given.folder / kind
        shutil.rmtree(target, ignore_errors=True)
        os.sync()  # what the other way left to be written is not paid for here
        started = time.monotonic()
        if kind == "backfill":
            _backfill(spark, given.bucket, target)
        else:
            archive().write.option("compression", "zstd").parquet(str(target))
        return time.monotonic() - started

    kinds = ("backfill", "write")
    for kind in kinds:
        run(kind, 0)
    seconds = interleaved(kinds, given.repetitions, run)
    wanted = _hashed(archive())
    for kind in kinds:
        found = _hashed(spark.read.parquet(str(given.folder / kind)))
        if found != wanted:
            raise SystemExit(f"{kind}: the rows differ: {found}, not {wanted}")
    sizes = {kind: _size_bytes(given.folder / kind) for kind in kinds}
    print(json.dumps({"rows": wanted[0], "seconds": seconds, "bytes": sizes}))
    spark.stop()


CELL = Cell(_LINE.cell, (_LINE,), _measure)

if __name__ == "__main__":
    main()
