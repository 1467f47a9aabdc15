"""The tasks of a backfill on Spark. No row passes through the JVM: what comes back is the list of files of each task."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from stratalog.spark.backfill.backfill import Progress
from stratalog.spark.backfill.convert import ConvertRequest, convert_task
from stratalog.spark.backfill.plan import SpanTask
from stratalog.spark.ledger.ledger import Span
from stratalog.spark.sessions.spark_tasks import SparkTasks, TaskFailed

__all__ = ["SparkRunner", "TaskFailed"]


class SparkRunner:
    """Runs tasks on the session's executors."""

    def __init__(self, spark: SparkSession) -> None:
        self._tasks = SparkTasks(spark)

    def convert(self, tasks: Sequence[tuple[SpanTask, ...]], request: ConvertRequest, progress: Progress) -> list[Span]:
        """Convert every task. Raises `TaskFailed` with the words of the first one that failed for good."""
        planned_bytes = sum(span.source_bytes for task in tasks for span in task)
        told_bytes = 0

        def ended(count: int) -> None:
            nonlocal told_bytes
            ended_bytes = planned_bytes * count // len(tasks)  # tasks are taken to be equal
            progress.converted(ended_bytes - told_bytes, 0)
            told_bytes = ended_bytes

        def convert(task: tuple[SpanTask, ...]) -> list[Span]:
            return convert_task(task, request)

        found = self._tasks.run(f"backfill of {request.topic}", tasks, convert, ended)
        spans = [span for each in found for span in each]
        total_bytes = sum(span.source_bytes for span in spans)
        progress.converted(total_bytes - told_bytes, sum(span.rows for span in spans))
        return spans
