"""The tasks of a rewriting run on Spark: keys are scanned and joined, codes go to the task that rewrites their objects.

A record passes through the JVM as its key and a number, and only if no later one of its key was seen by the same task;
no value ever does. Only the workers write.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stratalog.spark.rewrite.group import Group, GroupResult, RewriteRequest, rewrite_here
from stratalog.spark.rewrite.rewriter import UNREAD, Placement, RewriteProgress, Scan, ScanTask
from stratalog.spark.rows.schema import COLUMNS, spark_ddl
from stratalog.spark.sessions.spark_tasks import TaskFailed, ended_tasks, words_of
from stratalog.wire.errors import Invalid

__all__ = ["SparkRewriter"]

_LOOK_SECONDS: Final = 0.5
_TASKS_MAX: Final = 2000
_NO_CODE: Final = -1


class SparkRewriter:
    """Runs tasks on the session's executors."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def check(self, scan: Scan) -> None:
        """See `Rewriter`. Spark looks at the predicate; nothing is run."""
        if not scan.where:
            return
        try:
            self._spark.createDataFrame([], spark_ddl(COLUMNS)).where(scan.where)
        except AnalysisException as error:
            said = str(error).strip().partition("\n")[0]  # of a predicate that cannot be parsed the first line is empty
            raise Invalid(f"'{scan.where}' is no predicate over {', '.join(COLUMNS)}: {said}") from error

    def rewrite(
        self,
        tasks: Sequence[ScanTask],
        scan: Scan,
        groups: Sequence[Group],
        request: RewriteRequest,
        told: RewriteProgress,
        *,
        newest_only: bool,
    ) -> Iterable[GroupResult]:
        """See `Rewriter`. Raises `TaskFailed` with the words of the first task that failed for good."""
        context = self._spark.sparkContext
        group = f"stratalog-{request.kind}-{uuid4().hex}"
        context.setJobGroup(group, f"stratalog {request.kind}", interruptOnCancel=True)
        shipped_tasks = context.broadcast([pickle.dumps(task) for task in tasks])
        shipped_groups = context.broadcast(list(groups))
        over = threading.Event()
        task_count = min(max(context.defaultParallelism, len(groups)), _TASKS_MAX)
        with ThreadPoolExecutor(1, thread_name_prefix="stratalog-progress") as pool:
            pool.submit(self._watch, group, told, _share(tasks, groups, task_count), over)
            try:
                codes = self._codes(len(tasks), scan, shipped_tasks, newest_only=newest_only)
                placed = self._placed(codes, len(groups), shipped_groups).repartition(task_count, "group")
                rows = placed.groupBy("group").applyInArrow(_rewriting(shipped_groups, request), "result binary")
                return [pickle.loads(row["result"]) for row in rows.collect()]  # noqa: S301 - our own workers
            except KeyboardInterrupt:
                context.cancelJobGroup(group)
                raise
            except Exception as error:
                raise TaskFailed(words_of(error)) from error
            finally:
                over.set()
                context.setLocalProperty("spark.jobGroup.id", cast("str", None))  # None takes it away
                shipped_tasks.destroy()
                shipped_groups.destroy()

    def _codes(self, task_count: int, scan: Scan, shipped: Any, *, newest_only: bool) -> DataFrame:
        def scanned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield from scan.read(pickle.loads(shipped.value[index]))  # noqa: S301 - from our driver

        numbers = self._spark.range(0, task_count, 1, task_count)
        if scan.where:
            rows = numbers.mapInArrow(scanned, f"{spark_ddl(COLUMNS)}, {UNREAD} boolean")
            code = F.shiftleft("offset", 1)
            code = F.when(F.col(UNREAD), F.bitwise_not(code.bitwiseOR(F.lit(1)))).otherwise(code)
            return rows.where(F.col(UNREAD) | F.expr(scan.where)).select("partition", code.alias("code"))
        found = numbers.mapInArrow(scanned, "partition int, key binary, code long")
        apart = F.least("code", F.lit(-1).cast("long"))  # each batch that could not be read is a group of its own
        return found.groupBy("partition", "key", apart).agg(F.max("code").alias("code")) if newest_only else found

    def _placed(self, codes: DataFrame, group_count: int, shipped: Any) -> DataFrame:
        """Rows (group, code), and for every group one row with the code -1: of some nothing stays."""

        def placed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            placement = Placement(shipped.value)
            yield from (placement.place(batch) for batch in batches)

        every = self._spark.range(group_count).select(
            F.col("id").alias("group"), F.lit(_NO_CODE).cast("long").alias("code")
        )
        return codes.select("partition", "code").mapInArrow(placed, "group long, code long").unionByName(every)

    def _watch(self, group: str, told: RewriteProgress, task_bytes: int, over: threading.Event) -> None:
        """Tell how many tasks have ended, taking them to be equal, until ``over``."""
        tracker = self._spark.sparkContext.statusTracker()
        ended = 0
        while not over.wait(_LOOK_SECONDS):
            now = ended_tasks(tracker, group)
            told.moved((now - ended) * task_bytes)
            ended = now


def _share(tasks: Sequence[ScanTask], groups: Sequence[Group], task_count: int) -> int:
    """The share of an ended task in all bytes that are scanned and rewritten."""
    scan_bytes = sum(piece.read_bytes for task in tasks for piece in task)
    return (scan_bytes + sum(group.data_bytes for group in groups)) // max(1, len(tasks) + task_count)


def _rewriting(shipped: Any, request: RewriteRequest) -> Any:
    def rewriting(table: pa.Table) -> pa.Table:
        number = table.column("group")[0].as_py()
        codes = table.column("code").to_numpy()
        result = rewrite_here(shipped.value[number], codes[codes != _NO_CODE], request)
        return pa.table({"result": pa.array([pickle.dumps(result)], pa.binary())})

    return rewriting
