"""The tasks of a backfill on Spark: one Python task each, by ``mapInArrow`` over their numbers.

No row passes through the JVM: what comes back is the list of files of each task.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from stratalog.spark.backfill import Progress
from stratalog.spark.backfill_plan import SpanTask
from stratalog.spark.convert import ConvertRequest, convert_task
from stratalog.spark.ledger import Span
from stratalog.wire.errors import StratalogError

if TYPE_CHECKING:
    from pyspark import StatusTracker

__all__ = ["SparkRunner", "TaskFailed"]

_LOOK_SECONDS: Final = 0.5
_OURS: Final = "stratalog."


class TaskFailed(StratalogError):
    """A task failed on Spark, after as many attempts as Spark gives it. Nothing of its run is visible."""


class SparkRunner:
    """Runs tasks on the session's executors."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._worker_groups: set[int] = set()

    def convert(self, tasks: Sequence[tuple[SpanTask, ...]], request: ConvertRequest, progress: Progress) -> list[Span]:
        """Convert every task. Raises `TaskFailed` with the words of the first one that failed for good."""
        group = f"stratalog-backfill-{uuid4().hex}"
        done = threading.Event()
        with ThreadPoolExecutor(1, thread_name_prefix="stratalog-progress") as pool:
            watching = pool.submit(self._watch, group, tasks, progress, done)
            try:
                rows = self._collect(group, tasks, request)
            finally:
                done.set()
            told_bytes = watching.result()
        self._worker_groups.update(row["process_group"] for row in rows)
        spans: list[Span] = [span for row in rows for span in pickle.loads(row["spans"])]  # noqa: S301 - our own workers
        total_bytes = sum(span.source_bytes for span in spans)
        progress.converted(total_bytes - told_bytes, sum(span.rows for span in spans))
        return spans

    def end_workers(self) -> None:
        """End the Python workers of this machine that have done these tasks, before a local session is stopped.

        Spark closes the sockets of idle workers first; each then fails to answer, and is killed by its daemon's SIGHUP
        while it prints the traceback of that. With SIGHUP first there is nothing to print.
        """
        if (self._spark.sparkContext.master or "").startswith("local"):
            for group in self._worker_groups - {os.getpgrp()}:
                with suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGHUP)  # the daemon, whose group it is, ignores it
        self._worker_groups.clear()

    def _collect(self, group: str, tasks: Sequence[tuple[SpanTask, ...]], request: ConvertRequest) -> list[Any]:
        context = self._spark.sparkContext
        context.setJobGroup(group, f"stratalog backfill of {request.topic}", interruptOnCancel=True)
        shipped = context.broadcast([pickle.dumps(task) for task in tasks])

        def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    spans = convert_task(pickle.loads(shipped.value[index]), request)  # noqa: S301 - from our driver
                    yield pa.RecordBatch.from_pydict(
                        {"spans": [pickle.dumps(spans)], "process_group": pa.array([os.getpgrp()], pa.int64())}
                    )

        try:
            numbers = self._spark.range(0, len(tasks), 1, len(tasks))
            return numbers.mapInArrow(convert, "spans binary, process_group bigint").collect()
        except KeyboardInterrupt:
            context.cancelJobGroup(group)
            raise
        except Exception as error:
            raise TaskFailed(_words(error)) from error
        finally:
            context.setLocalProperty("spark.jobGroup.id", cast("str", None))  # None takes it away
            shipped.destroy()

    def _watch(
        self, group: str, tasks: Sequence[tuple[SpanTask, ...]], progress: Progress, done: threading.Event
    ) -> int:
        """Tell how many tasks have ended, until ``done``; returns the bytes told, taking tasks to be equal."""
        tracker = self._spark.sparkContext.statusTracker()
        total_bytes = sum(span.source_bytes for task in tasks for span in task)
        told_bytes = 0
        while not done.wait(_LOOK_SECONDS):
            ended_bytes = total_bytes * min(_ended(tracker, group), len(tasks)) // len(tasks)
            progress.converted(ended_bytes - told_bytes, 0)
            told_bytes = ended_bytes
        return told_bytes


def _ended(tracker: StatusTracker, group: str) -> int:
    ended = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            found = tracker.getStageInfo(stage)
            ended += found.numCompletedTasks if found else 0
    return ended


def _words(error: Exception) -> str:
    """What our own code said in the worker; else all that Spark says."""
    lines = [line.strip() for line in str(error).splitlines()]
    ours = [line for line in lines if line.startswith(_OURS) and ": " in line]
    return ours[0].partition(": ")[2] if ours else str(error)
