"""The rows that Spark is measured on, archived by a broker that is gone by then, and the process that reads them."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.archives import TIERED, json_values, wait_archived
from bench.cells.librdkafka import produce
from bench.outcome import median
from bench.servers import BrokerServer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["TOPIC", "SparkSide", "counted_and_hashed", "measured_by_spark", "run_spark_side", "spark_side"]

TOPIC = "rows"
_PARTITION_COUNT = 4
_SEGMENT_BYTES = 32 << 20
_VALUE_BYTES = 100
_MESSAGE_COUNT = 6_000_000


@dataclass(frozen=True, slots=True)
class SparkSide:
    """Arguments of the process with the session: the archive, a folder of its own, runs of each kind."""

    bucket: str
    folder: Path
    repetitions: int


def measured_by_spark(module: str, folder: Path, repetitions: int, values: list[bytes] | None = None) -> dict[str, Any]:
    """Archive rows, with ``values`` in turn if they are given, and run ``module`` over them.

    Returned is what it prints in its last line, one JSON object.

    That has ``rows``, which must be as many as are archived, and ``seconds``, for each kind those of its runs. Raises
    ``SystemExit`` if it fails.
    """
    with BrokerServer.start(folder / "data") as broker:
        broker.create_topic(TOPIC, _PARTITION_COUNT, segment_bytes=str(_SEGMENT_BYTES), **TIERED)
        produce(
            broker.port,
            TOPIC,
            values or json_values(4000, _VALUE_BYTES),
            _MESSAGE_COUNT,
            acks="all",
            partitioner="random",
        )
        rows = sum(wait_archived(broker, TOPIC, _PARTITION_COUNT))
        bucket = broker.bucket
    found = run_spark_side(module, bucket, folder, repetitions)
    if found["rows"] != rows:
        raise SystemExit(f"Spark found {found['rows']} rows, {rows} are archived")
    for kind, each in found["seconds"].items():
        print(f"  {kind:8} {', '.join(f'{one:.2f}' for one in each)} s, {rows} rows", file=sys.stderr, flush=True)
    found["seconds"] = {kind: median(each) for kind, each in found["seconds"].items()}
    return found


def run_spark_side(module: str, bucket: str, folder: Path, repetitions: int) -> dict[str, Any]:
    """Run ``module`` over an archive; the JSON object that it prints in its last line. Raises ``SystemExit``."""
    command = [sys.executable, "-m", module, "--bucket", bucket, "--folder", str(folder)]
    command += ["--repetitions", str(repetitions)]
    with (folder / "spark.log").open("w") as log:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)}\n{(folder / 'spark.log').read_text()[-4000:]}")
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def spark_side(description: str | None, arguments: Sequence[str] | None) -> SparkSide:
    """The command line that `measured_by_spark` gives to a module."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, required=True)
    given = parser.parse_args(arguments)
    return SparkSide(given.bucket, given.folder, given.repetitions)


def counted_and_hashed(frame: DataFrame, *columns: Column) -> tuple[int, int]:
    """The number of rows, and a sum that depends on these columns of each."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    hashed = F.xxhash64(*columns).cast("decimal(38,0)")
    row = frame.agg(F.count("*").alias("rows"), F.sum(hashed).alias("hash")).collect()[0]
    return int(row["rows"]), int(row["hash"])
