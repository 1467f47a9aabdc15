"""Apache Spark over the archive: ``spark.read`` and ``readStream.format("stratalog")``, without a broker.

.. code-block:: python

    from stratalog import spark as sl

    spark = sl.session()
    orders = sl.read(spark, "s3://bucket/prefix", topics="orders", startingTimestamp="1372896000000")

PySpark is imported when a function is called, never by importing this package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stratalog.extras import naming_extra

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stratalog.spark.backfill.backfill import Summary

__all__ = ["bad_records", "count", "iceberg_conf", "read", "read_stream", "register", "session", "stats", "to_parquet"]


def read(
    spark: SparkSession,
    archive: str,
    *,
    topics: str | Sequence[str],
    columns: str | Sequence[str] = (),
    **options: str | int | bool,
) -> DataFrame:
    """The rows of ``topics`` in the bucket at ``archive``.

    ``columns`` saves the work for all others; ``options`` are those of the source, under their own names. Where
    they say nothing, the session's S3 settings in Hadoop's words (``spark.hadoop.fs.s3a.…``) hold.
    """
    given = _completed(spark, archive, {**_named(topics, columns), **options})
    return spark.read.format("stratalog").options(**given).load(archive)


def read_stream(
    spark: SparkSession,
    archive: str,
    *,
    topics: str | Sequence[str],
    columns: str | Sequence[str] = (),
    **options: str | int | bool,
) -> DataFrame:
    """The same as a stream, which follows the archive while it grows: ``spark.readStream``."""
    given = _completed(spark, archive, {**_named(topics, columns), **options})
    return spark.readStream.format("stratalog").options(**given).load(archive)


def _named(topics: str | Sequence[str], columns: str | Sequence[str]) -> dict[str, str]:
    return {"subscribe": _list(topics), "columns": _list(columns)} if columns else {"subscribe": _list(topics)}


def _list(names: str | Sequence[str]) -> str:
    return names if isinstance(names, str) else ",".join(names)


def _completed(spark: SparkSession, archive: str, options: Mapping[str, str | int | bool]) -> dict[str, str]:
    """``options`` as texts, and of the session's Hadoop settings what they leave open."""
    from stratalog.spark.environment.hadoop_settings import completed, s3a_of_session  # noqa: PLC0415 - with boto3's settings

    given = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    return completed(given, s3a_of_session(spark), archive) if archive.startswith("s3") else given


def count(spark: SparkSession, archive: str, *, topics: str | Sequence[str] = (), **options: str | int | bool) -> int:
    """How many rows `read` with the same arguments has, without decoding them: from manifests and batch headers.

    ``topics`` may be left out where an option ``assign`` or ``subscribePattern`` is given.
    """
    from stratalog.spark.source.counting import count_archive  # noqa: PLC0415 - needs numpy and pyarrow
    from stratalog.spark.source.options import parse_options  # noqa: PLC0415

    given = _completed(spark, archive, options)
    if topics:
        given["subscribe"] = _list(topics)
    return count_archive(spark, parse_options({"path": archive, **given}))


def stats(
    spark: SparkSession,
    archive: str,
    *,
    topics: str | Sequence[str],
    by: str | Sequence[str] = ("partition",),
    keys: str = "exact",
    **options: str | int | bool,
) -> DataFrame:
    """Records, bytes, distinct keys and missing offsets of ``topics``, by topic and ``by`` (``partition``, ``day``): `stratalog stats`.

    ``keys`` is ``exact``, ``approximate`` or ``none``. The rows are those of `stratalog.spark.reports.figures.Figures`.
    """
    from stratalog.spark.reports.figures import Keys, check_grouping, figures_table  # noqa: PLC0415
    from stratalog.spark.reports.figures_spark import archive_stats  # noqa: PLC0415 - needs PySpark
    from stratalog.spark.source.options import parse_options  # noqa: PLC0415 - needs numpy and pyarrow

    given = _completed(spark, archive, options)
    wanted = parse_options({"path": archive, **given, **_named(topics, ())})
    grouping = check_grouping(by.split(",") if isinstance(by, str) else by)
    return spark.createDataFrame(figures_table(archive_stats(spark, wanted, grouping, Keys(keys))))


def to_parquet(
    spark: SparkSession,
    archive: str,
    target: str,
    *,
    topic: str,
    partition_by: str = "date",
    **options: str | int | bool,
) -> Summary:
    """Convert what ``archive`` holds of ``topic`` and ``target`` does not to Parquet files: ``stratalog backfill``.

    ``target`` is a directory, ``s3://bucket/prefix``, or a table as the command knows them (``iceberg:…``, ``delta:…``);
    ``options`` are those of the source, ``s3.…`` hold for both sides; what they leave open the session's settings
    ``spark.hadoop.fs.s3a.…`` say. Raises `LedgerConflict` if another backfill to the same target commits first; nothing
    of this one is seen.
    """
    from stratalog.spark.backfill.backfill import BackfillSettings, backfill  # noqa: PLC0415 - needs numpy and pyarrow
    from stratalog.spark.backfill.spark_job import SparkRunner  # noqa: PLC0415 - needs PySpark
    from stratalog.spark.sinks import is_table, open_table  # noqa: PLC0415
    from stratalog.spark.source.options import parse_options  # noqa: PLC0415

    read = parse_options({"path": archive, "subscribe": topic, **_completed(spark, archive, options)})
    place = target.removeprefix("delta:")
    given = _completed(spark, place, options) if place.startswith("s3") else {}
    target_options = {name: value for name, value in given.items() if name.startswith("s3.")}
    table = open_table(target, partition_by, target_options) if is_table(target) else None
    settings = BackfillSettings(
        topic=topic,
        read=read,
        target=table.files_url if table else target,
        table=table,
        target_options=dict(table.files_options) if table else target_options,
        partitioning=partition_by,
        core_count=spark.sparkContext.defaultParallelism,
    )
    return backfill(settings, SparkRunner(spark))


def iceberg_conf(catalog: str) -> dict[str, str]:
    """Settings of a session whose Spark SQL reads the tables of pyiceberg's ``catalog``: ``sl.session(**sl.iceberg_conf("lake"))``.

    Raises `Invalid` for a PySpark that Iceberg has no runtime for, for a catalog that is neither SQLite nor REST, and
    without pyiceberg.
    """
    with naming_extra("iceberg_conf"):
        from pyspark import __version__  # noqa: PLC0415 - needs PySpark

    from stratalog.spark.sinks.iceberg import catalog_properties  # noqa: PLC0415
    from stratalog.spark.sinks.iceberg_reading import iceberg_conf as conf  # noqa: PLC0415

    return conf(__version__, catalog, catalog_properties(catalog))


def bad_records(spark: SparkSession, path: str, **options: str) -> DataFrame:
    """Damage that reads with ``badRecords=quarantine`` and ``badRecordsPath=path`` left out, a row a damaged range.

    ``options`` are those named ``s3.…`` of the source.
    """
    from stratalog.spark.source.fetch import open_quarantine  # noqa: PLC0415 - needs numpy and pyarrow
    from stratalog.spark.source.quarantine import BAD_RECORDS_DDL  # noqa: PLC0415

    given = _completed(spark, path, options)
    return spark.createDataFrame([tuple(each) for each in open_quarantine(path, given).ranges()], BAD_RECORDS_DDL)


def register(spark: SparkSession) -> None:
    """Register the format by hand, where PySpark cannot find ``pyspark_stratalog``: in zips of ``--py-files``.

    The format then knows, too, what the session says now about S3 in Hadoop's words (``spark.hadoop.fs.s3a.…``).
    """
    from stratalog.spark.source.registration import register as register_format  # noqa: PLC0415 - needs PySpark

    register_format(spark)


def session(master: str = "local[*]", *, app_name: str = "stratalog", **config: str) -> SparkSession:
    """The running Spark session, or a new one that fits this source; see `stratalog.spark.sessions.sessions`.

    Raises `MissingPackage` with the command that installs PySpark, or what PySpark needs, where it is missing.
    """
    with naming_extra("stratalog.spark.session"):
        import numpy as np  # noqa: F401, PLC0415 - the source needs it: better said now than by a worker of Spark
        import pyarrow as pa  # noqa: F401, PLC0415

        from stratalog.spark.sessions.sessions import session as start  # noqa: PLC0415 - needs PySpark

    return start(master, app_name=app_name, **config)
