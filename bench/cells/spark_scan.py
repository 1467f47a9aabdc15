"""A full scan of the bucket by Spark, every column hashed, against a scan of the same rows in zstd Parquet."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, interleaved
from bench.settings import Settings
from bench.spark_rows import TOPIC, counted_and_hashed, measured_by_spark, spark_side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["CELL", "main"]

WARM_RUNS = 2

_LINE = Line("spark-scan", "rows a second / that of zstd Parquet", Bound(">=", 0.40))
_COUNT = Line("spark-count", "million rows a second, stratalog.spark.count()", Bound(">=", 20.0))
_FRAME_COUNT = Line("spark-frame-count", "million rows a second, DataFrame.count()", Bound(">=", 3.0))


def _measure(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder:
        found = measured_by_spark("bench.cells.spark_scan", folder, settings.repetitions)
    seconds, rows = found["seconds"], found["rows"]
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
    return counted_and_hashed(frame, *(frame[name] for name in sorted(frame.columns)))


def main(arguments: list[str] | None = None) -> None:
    """The Spark side: write the rows as Parquet, scan both in turns, print one line of JSON."""
    given = spark_side(main.__doc__, arguments)
    from stratalog import spark as stratalog_spark

    spark = stratalog_spark.session("local[2]", app_name="bench", **{"spark.driver.memory": "2g"})
    parquet = given.folder / "parquet"

    def archive() -> DataFrame:
        return spark.read.format("stratalog").option("subscribe", TOPIC).load(given.bucket)

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
        "count": lambda: stratalog_spark.count(spark, given.bucket, topics=TOPIC),
        "frame-count": lambda: archive().count(),
    }

    def count(kind: str, _: int) -> float:
        started = time.monotonic()
        if counts[kind]() != next(iter(wanted))[0]:
            raise SystemExit(f"{kind}: the number of rows differs")
        return time.monotonic() - started

    seconds = interleaved(tuple(kinds), given.repetitions, run)
    interleaved(tuple(counts), WARM_RUNS, count)
    seconds |= interleaved(tuple(counts), given.repetitions, count)
    size_bytes = sum(path.stat().st_size for path in parquet.glob("*.parquet"))
    print(json.dumps({"rows": wanted.pop()[0], "seconds": seconds, "parquet_bytes": size_bytes}))
    spark.stop()


CELL = Cell(_LINE.cell, (_LINE, _COUNT, _FRAME_COUNT), _measure)

if __name__ == "__main__":
    main()
