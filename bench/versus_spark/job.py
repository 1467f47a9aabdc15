"""The process with the Spark session: every kind in turns, walls and CPU times of all processes, one line of JSON."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.outcome import interleaved
from bench.processes import cpu_seconds_of_tree_and_ended
from bench.spark_rows import counted_and_hashed
from bench.versus_spark.connector import TUNED, connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

__all__ = ["Run", "main"]

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
_BATCH_RECORDS = "100"
_WARM_BATCHES, _BATCHES = 5, 20
_BATCHES_SECONDS = 60

Run = dict[str, float]


@dataclass(frozen=True, slots=True)
class _Job:
    """The data to read, and its place."""

    spark: SparkSession
    folder: Path
    topic: str
    archives: Mapping[str, str]
    bootstrap: str
    server_pids: tuple[int, ...]

    def reader(self, kind: str, reader: DataFrameReader) -> DataFrameReader:
        """``kafka``, ``kafka-tuned``, or an archive by its name; ``-columns`` names those that the scan needs."""
        if kind.startswith("kafka"):
            reader = reader.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
            return reader.options(**TUNED) if kind == "kafka-tuned" else reader
        reader = reader.format("stratalog").option("archive", self.archives[kind.removesuffix("-columns")])
        return reader.option("columns", "key,value,offset") if kind.endswith("-columns") else reader

    def frame(self, kind: str) -> DataFrame:
        """All records of the topic."""
        return self.reader(kind, self.spark.read).option("subscribe", self.topic).load()

    def scan(self, kind: str) -> object:
        """Results in which all kinds must agree: the sum of the lengths, the largest offset, the number of keys."""
        from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

        found = self.frame(kind).agg(F.sum(F.length("value")), F.max("offset"), F.count("key")).first()
        return None if found is None else tuple(found)

    def write(self, kind: str) -> None:
        """To Parquet files with zstd: the backfill on our side, ``write.parquet`` on the other."""
        target = self.target(kind)
        if kind.startswith("kafka"):
            self.frame(kind).write.option("compression", "zstd").parquet(str(target))
            return
        from stratalog.spark import to_parquet

        to_parquet(self.spark, self.archives[kind], str(target), topic=self.topic)

    def target(self, kind: str) -> Path:
        """Where the files of a kind are."""
        return self.folder / "out" / kind

    def clear(self, kind: str) -> None:
        """Remove them, and pay for what is still to be written now."""
        shutil.rmtree(self.target(kind), ignore_errors=True)
        os.sync()

    def written(self, kind: str) -> object:
        """A hash over all columns of all rows."""
        files = self.target(kind) / ("" if kind.startswith("kafka") else self.topic)
        frame = self.spark.read.parquet(str(files))
        return counted_and_hashed(frame, *(frame[name] for name in _COLUMNS))

    def timed(self, act: Callable[[], object]) -> tuple[Run, object]:
        """Seconds by the clock, and CPU seconds of this process's tree and of the servers."""
        before = self._cpu_seconds()
        started = time.monotonic()
        found = act()
        wall = time.monotonic() - started
        after = self._cpu_seconds()
        return {"wall": wall, "spark_cpu": after[0] - before[0], "server_cpu": after[1] - before[1]}, found

    def _cpu_seconds(self) -> tuple[float, float]:
        servers = sum(cpu_seconds_of_tree_and_ended(pid) for pid in self.server_pids)
        return cpu_seconds_of_tree_and_ended(os.getpid()), servers


def _scans(job: _Job, kinds: Iterable[str], repetitions: int) -> Mapping[str, list[Run]]:
    wanted = {job.scan(kind) for kind in kinds}
    if len(wanted) != 1:
        raise SystemExit(f"the rows differ: {wanted}")

    def run(kind: str, _: int) -> Run:
        figures, found = job.timed(lambda: job.scan(kind))
        if found not in wanted:
            raise SystemExit(f"{kind}: the rows differ: {found}, not {wanted}")
        return figures

    return interleaved(tuple(kinds), repetitions, run)


def _writes(job: _Job, kinds: Iterable[str], repetitions: int) -> Mapping[str, list[Run]]:
    def run(kind: str, _: int) -> Run:
        job.clear(kind)
        return job.timed(lambda: job.write(kind))[0]

    interleaved(tuple(kinds), 1, run)
    found = {kind: job.written(kind) for kind in kinds}
    if len(set(found.values())) != 1:
        raise SystemExit(f"the files differ: {found}")
    results = interleaved(tuple(kinds), repetitions, run)
    shutil.rmtree(job.folder / "out", ignore_errors=True)
    return results


def _micro_batches(job: _Job, kinds: Iterable[str], repetitions: int) -> Mapping[str, list[Run]]:
    """Streams of the smallest batches there are: some records of one partition, no sink, no pause."""

    def run(kind: str, repetition: int) -> Run:
        assigned = job.reader(kind, job.spark.readStream).option("assign", json.dumps({job.topic: [0]}))  # type: ignore[arg-type]
        stream = assigned.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", _BATCH_RECORDS).load()
        checkpoint = job.folder / "out" / f"checkpoint-{kind}-{repetition}"
        query = stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        deadline = time.monotonic() + _BATCHES_SECONDS
        while len(query.recentProgress) < _WARM_BATCHES + _BATCHES and time.monotonic() < deadline:
            time.sleep(0.2)
        took = [each.durationMs["triggerExecution"] for each in query.recentProgress if each.numInputRows]
        query.stop()
        took = took[_WARM_BATCHES : _WARM_BATCHES + _BATCHES]
        if len(took) < _BATCHES:
            raise SystemExit(f"{kind}: {len(took)} micro-batches in {_BATCHES_SECONDS} s")
        return {"batch_ms": statistics.median(took)}

    shutil.rmtree(job.folder / "out", ignore_errors=True)
    interleaved(tuple(kinds), 1, lambda kind, _: run(kind, -1))
    return interleaved(tuple(kinds), repetitions, run)


_ACTIONS = {"scan": _scans, "write": _writes, "micro-batch": _micro_batches}


def main(arguments: list[str] | None = None) -> None:
    """Run one action by every kind in turns; rounds that warm up are not told."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--action", choices=_ACTIONS, required=True)
    parser.add_argument("--kinds", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--archives", type=json.loads, required=True)
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--server-pids", default="")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, required=True)
    given = parser.parse_args(arguments)
    kinds: list[str] = given.kinds.split(",")
    from stratalog import spark as stratalog_spark

    config = {"spark.driver.memory": "4g", "spark.local.dir": str(given.folder / "tmp")}
    if any(kind.startswith("kafka") for kind in kinds):
        config["spark.jars"] = ",".join(map(str, connector_jars()))
    spark = stratalog_spark.session("local[2]", app_name="bench", **config)
    pids = tuple(int(pid) for pid in given.server_pids.split(",") if pid)
    job = _Job(spark, given.folder, given.topic, given.archives, given.bootstrap, pids)
    results: dict[str, Any] = dict(_ACTIONS[given.action](job, kinds, given.repetitions))
    print(json.dumps(results), file=sys.stdout)
    spark.stop()


if __name__ == "__main__":
    main()
