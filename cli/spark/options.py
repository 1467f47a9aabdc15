"""Options and steps that the commands on Spark share: ``NAME=VALUE``, the bucket, the session. Imports no Spark by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stratalog.spark.source.options import ReadOptions

__all__ = [
    "COLUMN_OPTIONS",
    "TASK_OPTIONS",
    "archive_options",
    "check_before_spark",
    "check_topics",
    "pairs",
    "progress_bar",
    "quiet_logging",
    "refuse_options",
    "session_may_know_more",
    "spark_options",
    "spark_session",
    "store_options",
]

COLUMN_OPTIONS: Final = ("columns", "includeHeaders", "converted", "prefer")
"""Options of the source that say which columns a read has, and where they may come from."""
TASK_OPTIONS: Final = ("maxPartitionBytes", "minPartitions", "maxRecordsPerPartition")
"""Options of the source that say how it is divided into tasks."""

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOGGING: Final = Path(__file__).absolute().with_name("log4j2.properties")


def pairs(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` as a dictionary. Raises `click.BadParameter`."""
    found = {}
    for value in values:
        name, sign, text = value.partition("=")
        if not sign:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", context, parameter)
        found[name] = text
    return found


def refuse_options(given: Mapping[str, str], names: Sequence[str], instead: str) -> None:
    """Raise `Invalid` if an option of the source was given that the command would not obey."""
    written = {name.lower(): name for name in given}
    for name in names:
        if name.lower() in written:
            raise Invalid(f"option '{written[name.lower()]}' is not for this command: {instead}")


def archive_options(function: Decorated) -> Decorated:
    """Add ``--bucket``, ``--endpoint-url`` and ``--region``."""
    function = click.option("--region", metavar="NAME", help="The region of the bucket.")(function)
    function = click.option("--endpoint-url", metavar="URL", help="Another S3 server than Amazon's.")(function)
    text = "The archive: s3://bucket/prefix, file:///path or another fsspec URL."
    return click.option("--bucket", required=True, metavar="URL", help=text)(function)


def spark_options(function: Decorated) -> Decorated:
    """Add ``--master`` and ``--conf``, as ``master`` and ``spark_conf``."""
    text = "Any setting of Spark."
    function = click.option("--conf", "spark_conf", multiple=True, callback=pairs, metavar="NAME=VALUE", help=text)(
        function
    )
    text = "The Spark master; else spark-submit's, or local[*]."
    return click.option("--master", metavar="URL", help=text)(function)


def store_options(url: str, endpoint_url: str | None, region: str | None) -> dict[str, str]:
    """Options ``s3.…`` of the source for what is at ``url``."""
    if not url.startswith(("s3:", "s3a:")):
        return {}
    options = {"s3.endpoint": endpoint_url, "s3.region": region}
    return {name: value for name, value in options.items() if value is not None}


@contextmanager
def spark_session(app_name: str, master: str | None, options: Mapping[str, str]) -> Iterator[SparkSession]:
    """The session of spark-submit where it has started us, else one on ``master``; stopped in the end."""
    from pyspark.sql import SparkSession

    from stratalog.spark.sessions.sessions import session, stop

    if master is None and "PYSPARK_GATEWAY_PORT" in os.environ:
        builder = SparkSession.builder.appName(app_name)
        for name, value in options.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    else:
        spark = session(master or "local[*]", app_name=app_name, **quiet_logging(options, os.environ))
    try:
        yield spark
    finally:
        stop(spark)


def quiet_logging(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """``options`` of a session, with our logging of Spark's driver unless they or ``SPARK_CONF_DIR`` bring another."""
    java = options.get(_JAVA_OPTIONS, "")
    folder = environment.get("SPARK_CONF_DIR")
    if "log4j" in java or not _LOGGING.is_file() or (folder and Path(folder, _LOGGING.name).is_file()):
        return dict(options)
    return {**options, _JAVA_OPTIONS: f"{java} -Dlog4j2.configurationFile={_LOGGING.as_uri()}".lstrip()}


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """A callable of the bytes done and those in all: moves a bar on a terminal, prints nothing in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.disable = not bar.console.is_terminal
    task = bar.add_task(description, total=None)
    with bar:
        yield lambda done_bytes, total_bytes: bar.update(task, completed=done_bytes, total=total_bytes)


_SPARKS_OWN_FILES: Final = ("PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_HOME")


def session_may_know_more(read: ReadOptions) -> bool:
    """Whether settings that only a session reads, in ``spark-defaults.conf`` or ``core-site.xml``, may say how S3 is reached."""
    return read.archive.startswith(("s3:", "s3a:")) and any(name in os.environ for name in _SPARKS_OWN_FILES)


def check_before_spark(reads: Sequence[ReadOptions]) -> None:
    """Raise `Unknown` for a topic that is not there, and what the store raises, in seconds: a session takes longer."""
    from stratalog.spark.archive_store import open_archive
    from stratalog.spark.source.archive import check_topics_exist

    for read in reads:
        if not session_may_know_more(read):
            check_topics_exist(open_archive(read.archive, read.store_options), read.subscription.topics or ())


def check_topics(reads: Sequence[ReadOptions]) -> None:
    """Raise `Unknown` if one of several topics is not there, before anything is done to the others."""
    from stratalog.spark.archive_store import open_archive
    from stratalog.spark.source.archive import topic_manifests

    for read in reads if len(reads) > 1 else ():
        topic_manifests(open_archive(read.archive, read.store_options), read.subscription)
