"""A Spark session for a backfill that may turn out not to need one: with nothing to convert no JVM is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from stratalog.cli.spark.options import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from stratalog.spark.backfill.backfill import BackfillSettings, Progress
    from stratalog.spark.backfill.convert import ConvertRequest
    from stratalog.spark.backfill.plan import SpanTask
    from stratalog.spark.ledger.ledger import Span

__all__ = ["SparkOnDemand"]


class SparkOnDemand:
    """A `Runner` whose session is started with the first tasks, and stopped when ``stack`` is left.

    ``cores`` is how many share the work; None for as many as the session says.
    """

    def __init__(
        self, stack: ExitStack, master: str | None, spark_conf: Mapping[str, str], cores: int | None = None
    ) -> None:
        self._stack = stack
        self._master = master
        self._spark_conf = spark_conf
        self._cores = cores
        self._spark: SparkSession | None = None

    def start(self) -> SparkSession:
        """The session, started if it is not yet."""
        if self._spark is None:
            self._spark = self._stack.enter_context(spark_session("stratalog backfill", self._master, self._spark_conf))
        return self._spark

    def completed(self, settings: BackfillSettings) -> BackfillSettings:
        """The settings, with what flags and options leave open about S3 taken
        from the session, if there is one, in Hadoop's words.
        """
        if self._spark is None:
            return settings
        from stratalog.spark.environment.hadoop_settings import completed, s3a_of_session

        s3a = s3a_of_session(self._spark)
        archive = completed(settings.read.store_options, s3a, settings.read.archive)
        target = completed(settings.target_options, s3a, settings.target)
        return replace(settings, read=replace(settings.read, store_options=archive), target_options=target)

    def prepare(self, settings: BackfillSettings) -> BackfillSettings:
        """The settings to begin a backfill with: if there is anything to convert, the session is there and gives its
        cores.

        Raises what planning raises: for a wrong topic or target, before a session is started.
        """
        from stratalog.spark.backfill.backfill import foresee_backfill

        if self._spark is None and foresee_backfill(settings).spans:
            self.start()
        if self._spark is None:
            return settings
        cores = self._cores or self._spark.sparkContext.defaultParallelism
        return replace(self.completed(settings), core_count=cores)

    def convert(
        self, tasks: Sequence[tuple[SpanTask, ...]], request: ConvertRequest, progress: Progress
    ) -> Iterable[Span]:
        """See `Runner`."""
        from stratalog.spark.backfill.spark_job import SparkRunner

        return SparkRunner(self.start()).convert(tasks, request, progress)
