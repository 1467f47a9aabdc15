"""A backfill of an archive to Parquet files, against ``df.write.parquet`` of the same source; both with zstd."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, interleaved
from bench.settings import Settings
from bench.spark_rows import TOPIC, counted_and_hashed, measured_by_spark, spark_side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CELL", "main"]

CORES = 2

_LINE = Line("spark-convert", "seconds of df.write.parquet / of the backfill", Bound(">=", 2.0))


def _measure(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder:
        found = measured_by_spark("bench.cells.spark_convert", folder, settings.repetitions)
    seconds, rows = found["seconds"], found["rows"]
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
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    from stratalog.spark.rows.schema import COLUMNS

    plain = "transform(headers, h -> concat(h.key, '=', coalesce(hex(h.value), 'null')))"
    return counted_and_hashed(frame, *(F.expr(name if name != "headers" else plain) for name in COLUMNS))


def _backfill(spark: SparkSession, bucket: str, target: Path) -> None:
    from stratalog.spark.backfill.backfill import BackfillSettings, backfill
    from stratalog.spark.backfill.spark_job import SparkRunner
    from stratalog.spark.source.options import parse_options

    read = parse_options({"archive": bucket, "subscribe": TOPIC})
    backfill(BackfillSettings(TOPIC, read, str(target), core_count=CORES), SparkRunner(spark))


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def main(arguments: list[str] | None = None) -> None:
    """The Spark side: write the rows in both ways in turns, compare what was written, print one line of JSON."""
    given = spark_side(main.__doc__, arguments)
    from stratalog import spark as stratalog_spark

    spark = stratalog_spark.session(f"local[{CORES}]", app_name="bench", **{"spark.driver.memory": "2g"})

    def archive() -> DataFrame:
        options = {"subscribe": TOPIC, "includeHeaders": "true"}
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
