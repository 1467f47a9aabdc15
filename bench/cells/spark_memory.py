"""The memory of Spark's Python workers that read, and convert, objects of a GiB."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from bench.archives import TIERED, wait_archived
from bench.cell import Cell, Line
from bench.cells.cold_s3 import fill
from bench.outcome import Bound, Outcome
from bench.processes import family
from bench.servers import BrokerServer
from bench.settings import Settings
from bench.spark_rows import TOPIC, run_spark_side, spark_side

__all__ = ["CELL", "main", "parse_peak_kib"]

_SEGMENT_BYTES = 1 << 30
_PARTITION_COUNT = 2

_SCAN = Line("spark-worker-memory", "MB of RSS, the largest worker of a scan, objects of 1 GiB", Bound("<=", 350.0))
_CONVERT = Line("backfill-worker-memory", "MB of RSS, the largest worker of a backfill of them", Bound("<=", 350.0))


def _measure(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder:
        with BrokerServer.start(folder / "data") as broker:
            size_bytes = _SEGMENT_BYTES + _SEGMENT_BYTES // 32
            fill(broker, TOPIC, size_bytes, partitions=_PARTITION_COUNT, segment_bytes=str(_SEGMENT_BYTES), **TIERED)
            rows = sum(wait_archived(broker, TOPIC, _PARTITION_COUNT))
            bucket = broker.bucket
        found = run_spark_side("bench.cells.spark_memory", bucket, folder, repetitions=1)
    if found["rows"] != rows:
        raise SystemExit(f"Spark found {found['rows']} rows, {rows} are archived")
    return [
        _SCAN.outcome(found["megabytes"]["scan"], before=found["megabytes"]["start"]),
        _CONVERT.outcome(found["megabytes"]["convert"]),
    ]


def parse_peak_kib(status: str) -> int:
    """The largest resident set so far in KiB, of a ``/proc/PID/status`` (proc(5)); 0 for a process that has ended."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found.group(1)) if found else 0


def _largest_worker_megabytes() -> float:
    """The most memory that one Python process below this session's JVM has ever held."""
    peaks = [0]
    for pid in family(os.getpid())[1:]:
        try:
            if b"\0-m\0pyspark." in Path(f"/proc/{pid}/cmdline").read_bytes():  # the JVM has jars of that name
                peaks.append(parse_peak_kib(Path(f"/proc/{pid}/status").read_text()))
        except (FileNotFoundError, ProcessLookupError):
            continue  # a worker that ended while we looked
    return max(peaks) * 1024 / 1e6


def main(arguments: list[str] | None = None) -> None:
    """The Spark side: scan with fresh workers, convert with fresh workers, print one line of JSON."""
    given = spark_side(main.__doc__, arguments)
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    from stratalog import spark as stratalog_spark

    megabytes = {}
    rows = 0
    for step in ("scan", "convert"):
        spark = stratalog_spark.session("local[2]", app_name="bench", **{"spark.driver.memory": "2g"})
        spark.sparkContext.parallelize(range(2), 2).map(str).count()  # a worker that has done nothing
        megabytes.setdefault("start", _largest_worker_megabytes())
        if step == "scan":
            frame = spark.read.format("stratalog").option("subscribe", TOPIC).load(given.bucket)
            found = frame.agg(F.count("*").alias("rows"), F.sum(F.length("value"))).first()
            assert found is not None
            rows = int(found["rows"])
        else:
            stratalog_spark.to_parquet(spark, given.bucket, str(given.folder / "parquet"), topic=TOPIC)
        megabytes[step] = _largest_worker_megabytes()
        spark.stop()
    print(json.dumps({"rows": rows, "megabytes": megabytes}))


CELL = Cell("spark-memory", (_SCAN, _CONVERT), _measure)

if __name__ == "__main__":
    main()
