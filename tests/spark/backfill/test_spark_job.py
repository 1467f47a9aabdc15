"""Backfills by a real Spark: rows, hashes over all columns, workers and drivers that are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from stratalog import spark as stratalog_spark
from stratalog.spark.backfill import spark_job as backfill_spark
from stratalog.spark.backfill.backfill import backfill
from stratalog.spark.backfill.spark_job import SparkRunner, TaskFailed
from stratalog.spark.ledger.target import open_target
from stratalog.spark.rows.schema import COLUMNS

pytestmark = pytest.mark.spark


def fingerprint(rows: DataFrame) -> tuple[Any, ...]:
    """Count, and a hash of all columns that Spark computes itself."""
    plain = "transform(headers, h -> concat(h.key, '=', coalesce(hex(h.value), 'null')))"
    columns = ", ".join(name if name != "headers" else plain for name in COLUMNS)
    return tuple(rows.selectExpr("count(1)", f"bit_xor(xxhash64({columns}))", "sum(offset)").first() or ())


@pytest.fixture
def orders(tmp_path: Path, archive_in: Callable[[str], Any], batches: Callable[..., bytes]) -> Any:
    """Two partitions over several days."""
    builder = archive_in(f"file://{tmp_path / 'archive'}")
    for partition in range(2):
        segments = [batches(at, 100, timestamp_ms=1_372_900_000_000, step_ms=900_000) for at in range(0, 500, 100)]
        builder.add("orders", partition, *segments)
    return builder


def archived(spark: SparkSession, archive: Any) -> DataFrame:
    return spark.read.format("stratalog").options(subscribe="orders", includeHeaders="true").load(archive.store.url)


@pytest.mark.story
def test_spark_reads_the_rows_that_were_archived(spark: SparkSession, tmp_path: Path, orders: Any, rig: Any) -> None:
    """Count and hash over all columns, by the folder and by the whole target; the day prunes; the task's files add up."""
    told: list[tuple[int, int]] = []

    class Telling:
        def planned(self, plan: Any) -> None:
            told.append((plan.source_bytes, 0))

        def converted(self, source_bytes: int, rows: int) -> None:
            told.append((-source_bytes, rows))

    url = str(tmp_path / "lake")
    wanted = rig.settings(orders, url, file_bytes=20_000, task_bytes=20_000)
    done = backfill(wanted, SparkRunner(spark), Telling())
    assert done.rows == 1000
    assert sum(size for size, _ in told) == 0
    assert sum(rows for _, rows in told) == 1000
    expected = fingerprint(archived(spark, orders))
    assert fingerprint(spark.read.parquet(url)) == expected
    assert rig.target_rows(open_target(url, {}).store) == rig.archive_rows(orders)
    assert stratalog_spark.to_parquet(spark, orders.store.url, url, topic="orders").runs == 0
    day = spark.read.parquet(f"{url}/orders").where("date = '2013-07-05'")
    assert day.selectExpr("min(to_date(timestamp)) = max(to_date(timestamp))", "count(*)").first() == (True, 2 * 5 * 8)


def test_an_error_of_a_task_is_reported_in_our_words(
    spark: SparkSession, tmp_path: Path, orders: Any, rig: Any
) -> None:
    """Partition, offsets, object and what to do; not a page of Java."""
    entry = orders.manifests["orders", 1].entries[2]
    orders.store.delete_many([entry.key])
    with pytest.raises(TaskFailed) as failed:
        backfill(rig.settings(orders, str(tmp_path / "lake")), SparkRunner(spark))
    assert str(failed.value).startswith(
        f"orders-1, offsets 200 to 299, object {entry.key}: the object that the manifest"
    )
    assert "\n" not in str(failed.value)


def dying(spans: Any, request: Any) -> Any:
    """As `convert_task`, in a worker that is killed: in the middle of a file, or when it has staged its files."""
    import os
    from pathlib import Path

    from stratalog.spark.backfill.convert import convert_task
    from stratalog.spark.ledger.target import open_target

    target = open_target(request.target, {})
    if Path(target.root.parent, "in-a-file").exists():
        target.new_path(request.staging).write_bytes(b"PAR1")
    else:
        convert_task(spans, request)
    os.kill(os.getpid(), 9)


@pytest.mark.story
@pytest.mark.parametrize("point", ["in-a-file", "after-staging"])
def test_a_worker_that_is_killed_loses_no_row_and_doubles_none(
    point: str, spark: SparkSession, tmp_path: Path, orders: Any, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark says that it crashed, nothing is visible; the next backfill makes it whole and leaves nothing staged."""
    (tmp_path / point).touch()
    wanted = rig.settings(orders, str(tmp_path / "lake"))
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)  # workers cannot import it
    try:
        with monkeypatch.context() as patched:
            patched.setattr(backfill_spark, "convert_task", dying)
            with pytest.raises(TaskFailed, match="crashed"):
                backfill(wanted, SparkRunner(spark))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    target = open_target(str(tmp_path / "lake"), {})
    assert rig.visible_keys(target.store) == []
    assert len(target.folders("_stratalog/backfill/orders/staging/")) == 1
    assert backfill(wanted, SparkRunner(spark)).rows == 1000
    assert rig.target_rows(target.store) == rig.archive_rows(orders)
    assert target.folders("_stratalog/backfill/orders/staging/") == set()


PROGRAM = """
import os, signal, sys
from stratalog.spark.backfill.backfill import BackfillSettings, backfill
from stratalog.spark.ledger import ledger_store, parquet_files
from stratalog.spark.ledger.target import DirectoryTarget
from stratalog.spark.source.options import parse_options

archive, target, point = sys.argv[1:]

def die_in(owner, name, call, before=True):
    function, calls = getattr(owner, name), []
    def dying(*arguments, **options):
        calls.append(1)
        if before and len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **options)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(owner, name, dying)

Directory, Ledger = DirectoryTarget, ledger_store.LedgerStore
points = {
    "before the first file": (Directory, "new_path", 1),
    "in the middle of a file": (parquet_files._OpenFile, "flush", 3),
    "between two files": (Directory, "stage", 2),
    "after the files, before the record": (Ledger, "_create", 1),
    "after the record, before the commit": (Ledger, "_swap", 1),
    "after the commit": (Ledger, "_swap", 1, False),
    "between two files that are published": (Directory, "publish", 3),
    "before the end of publishing is reported": (Ledger, "_swap", 2),
    "before the clean-up": (Directory, "remove_folder", 1),
    "after the first of several runs": (Directory, "new_path", 8),
}
die_in(*points[point])

class Here:
    def convert(self, tasks, request, progress):
        from stratalog.spark.backfill.convert import convert_task
        return [span for task in tasks for span in convert_task(task, request)]

read = parse_options({"archive": archive, "subscribe": "orders", "batchBytes": "500"})
settings = BackfillSettings("orders", read, target, file_bytes=4000, task_bytes=9000, run_bytes=20000)
print(backfill(settings, Here()).rows)
"""
POINTS = [line.split('"')[1] for line in PROGRAM.splitlines() if line.strip().startswith('"')]


QUICK = {"in the middle of a file", "after the record, before the commit", "between two files that are published"}


@pytest.mark.story
@pytest.mark.parametrize(
    "point", [point if point in QUICK else pytest.param(point, marks=pytest.mark.slow) for point in POINTS]
)
def test_a_driver_that_is_killed_loses_no_row_and_doubles_none(
    point: str, tmp_path: Path, orders: Any, rig: Any
) -> None:
    """By SIGKILL at each named point, without Spark, whose driver does the same; the next one makes it whole."""
    url = tmp_path / "lake"
    command = [sys.executable, "-c", PROGRAM, orders.store.url, str(url)]
    killed = subprocess.run([*command, point], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    store = open_target(str(url), {}).store
    seen = rig.target_rows(store)
    assert len({row[:2] for row in seen}) == len(seen)
    again = rig.settings(orders, str(url), file_bytes=4000, task_bytes=9000, run_bytes=20000)
    assert backfill(again, rig.HereRunner()).rows <= 1000
    assert rig.target_rows(store) == rig.archive_rows(orders)
    assert list(url.rglob("*.writing")) == []
