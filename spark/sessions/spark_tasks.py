"""Python work on Spark's executors that is no query: one task each, by ``mapInArrow`` over their numbers.

No row passes through the JVM: what comes back is what the work has returned.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from stratalog.wire.errors import StratalogError

if TYPE_CHECKING:
    from pyspark import StatusTracker

__all__ = ["SparkTasks", "TaskFailed", "ended_tasks", "words_of"]

_LOOK_SECONDS: Final = 0.5
_OURS: Final = "stratalog."

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")


class TaskFailed(StratalogError):
    """A task failed on Spark, after as many attempts as Spark gives it."""


class SparkTasks:
    """Runs Python work on the session's executors."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def run(
        self,
        description: str,
        tasks: Sequence[TaskT],
        work: Callable[[TaskT], ResultT],
        on_ended: Callable[[int], object],
    ) -> list[ResultT]:
        """Results of ``work`` for each task, in the order of ``tasks``. Tasks and results are pickled; a task may run
        more than once.

        ``on_ended`` hears now and then, in another thread, how many tasks have ended. Raises `TaskFailed` with the words
        of the first task that failed for good. Interrupted, the job is cancelled.
        """
        group = f"stratalog-{uuid4().hex}"
        done = threading.Event()
        with ThreadPoolExecutor(1, thread_name_prefix="stratalog-progress") as pool:
            watching = pool.submit(_watch, self.spark, group, len(tasks), on_ended, done)
            try:
                rows = self._collect(group, description, tasks, work)
            finally:
                done.set()
            watching.result()
        results: dict[int, ResultT] = {
            row["task"]: pickle.loads(row["result"])  # noqa: S301 - our own workers
            for row in rows
        }
        return [results[index] for index in range(len(tasks))]

    def _collect(
        self, group: str, description: str, tasks: Sequence[TaskT], work: Callable[[TaskT], ResultT]
    ) -> list[Any]:
        context = self.spark.sparkContext
        context.setJobGroup(group, f"stratalog {description}", interruptOnCancel=True)
        shipped = context.broadcast([pickle.dumps(task) for task in tasks])

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    result = work(pickle.loads(shipped.value[index]))  # noqa: S301 - from our driver
                    yield pa.RecordBatch.from_pydict({"task": [index], "result": [pickle.dumps(result)]})

        try:
            numbers = self.spark.range(0, len(tasks), 1, len(tasks))
            return numbers.mapInArrow(run, "task bigint, result binary").collect()
        except KeyboardInterrupt:
            context.cancelJobGroup(group)
            raise
        except Exception as error:
            raise TaskFailed(words_of(error)) from error
        finally:
            context.setLocalProperty("spark.jobGroup.id", cast("str", None))  # None takes it away
            shipped.destroy()


def _watch(
    spark: SparkSession, group: str, task_count: int, on_ended: Callable[[int], object], done: threading.Event
) -> None:
    """Tell how many tasks have ended, until ``done``."""
    tracker = spark.sparkContext.statusTracker()
    while not done.wait(_LOOK_SECONDS):
        on_ended(min(ended_tasks(tracker, group), task_count))


def ended_tasks(tracker: StatusTracker, group: str) -> int:
    """How many tasks of the job group have ended so far."""
    ended = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            found = tracker.getStageInfo(stage)
            ended += found.numCompletedTasks if found else 0
    return ended


def words_of(error: Exception) -> str:
    """The message of our own code in the worker; else all of Spark's."""
    lines = [line.strip() for line in str(error).splitlines()]
    ours = [line for line in lines if line.startswith(_OURS) and ": " in line]
    return ours[0].partition(": ")[2] if ours else str(error)
