"""Gain from the compiled kernel in a scan by Spark: one session, array code and kernel by turns."""

from __future__ import annotations

import json
import os
import random
import time
from typing import TYPE_CHECKING

from bench.archives import json_values
from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, interleaved, median
from bench.processes import cpu_seconds_of_tree_and_ended
from bench.settings import Settings
from bench.spark_rows import TOPIC, measured_by_spark, spark_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CELL", "main"]

_PATHS = {"numpy": "off", "compiled": "require"}
_WARM_TURNS = 2
_VALUE_BYTES = 100

_LINES = (
    Line("spark-kernel-cpu", "CPU of a scan without the kernel / with it, 50 to 150 B", Bound(">=", 1.3)),
    Line("spark-kernel-wall", "the same by the clock", Bound(">=", 1.3)),
    Line("spark-kernel-even-cpu", "CPU of a scan without the kernel / with it, 100 B, to be known", Bound(">=", 0)),
    Line("spark-kernel-even-wall", "the same by the clock, to be known", Bound(">=", 0)),
)


def _measure(settings: Settings) -> list[Outcome]:
    dice = random.Random(7)
    longest = json_values(4000, _VALUE_BYTES * 3 // 2)
    varied = [value[: dice.randint(_VALUE_BYTES // 2, _VALUE_BYTES * 3 // 2)] for value in longest]
    outcomes = []
    for lines, values in ((_LINES[:2], varied), (_LINES[2:], None)):
        with settings.folder(settings.disk) as folder:
            found = measured_by_spark("bench.cells.spark_kernel", folder, settings.repetitions, values)
        for line, figure in zip(lines, ("cpu", "wall"), strict=True):
            details = {f"{path}_seconds": found["seconds"][f"{path} {figure}"] for path in _PATHS}
            outcomes.append(line.outcome(found["ratios"][figure], rows=found["rows"], **details))
    return outcomes


def _scan(spark: SparkSession, bucket: str, path: str) -> tuple[int, ...]:
    """The rows, what they hold, and where they end; decoded by one of both."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    from stratalog.spark import register
    from stratalog.spark.rows.kernel import VARIABLE

    # The source remembers the environment of its workers, and each environment has workers of its own.
    spark.sparkContext.environment[VARIABLE] = _PATHS[path]
    register(spark)
    frame = spark.read.format("stratalog").option("subscribe", TOPIC).load(bucket)
    row = frame.agg(F.count("*"), F.sum(F.length("value")), F.max("offset"), F.count("key")).collect()[0]
    return tuple(map(int, row))


def main(arguments: list[str] | None = None) -> None:
    """The Spark side: scan by turns, print one line of JSON; ratios are medians over the turns."""
    given = spark_side(main.__doc__, arguments)
    from stratalog import spark as stratalog_spark

    spark = stratalog_spark.session("local[2]", app_name="bench", **{"spark.driver.memory": "2g"})
    wanted = _scan(spark, given.bucket, "numpy")

    def run(path: str, _: int) -> dict[str, float]:
        before, started = cpu_seconds_of_tree_and_ended(os.getpid()), time.monotonic()
        found = _scan(spark, given.bucket, path)
        wall, cpu = time.monotonic() - started, cpu_seconds_of_tree_and_ended(os.getpid()) - before
        if found != wanted:
            raise SystemExit(f"{path}: the rows differ: {found}, not {wanted}")
        return {"wall": wall, "cpu": cpu}

    interleaved(tuple(_PATHS), _WARM_TURNS, run)
    runs = interleaved(tuple(_PATHS), given.repetitions, run)
    pairs = list(zip(*runs.values(), strict=True))
    ratios = {figure: median(one[figure] / other[figure] for one, other in pairs) for figure in ("wall", "cpu")}
    seconds = {f"{path} {figure}": [one[figure] for one in runs[path]] for path in _PATHS for figure in ratios}
    print(json.dumps({"rows": wanted[0], "seconds": seconds, "ratios": ratios}))
    spark.stop()


CELL = Cell("spark-kernel", _LINES, _measure)

if __name__ == "__main__":
    main()
