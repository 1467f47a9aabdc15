"""What ``stratalog compact`` and ``stratalog erase`` share: their options, who carries the run out, what is told."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stratalog.spark.cli_options import (
    Size,
    archive_options,
    pairs,
    progress_bar,
    size_text,
    spark_options,
    spark_session,
    store_options,
)
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    from stratalog.spark.options import ReadOptions
    from stratalog.spark.rewrite_summary import RewriteSummary
    from stratalog.spark.rewriter import Rewriter

    _IntParam = click.ParamType[int]
else:
    _IntParam = click.ParamType  # not generic in the older releases that we accept

__all__ = [
    "Duration",
    "completed_options",
    "read_options",
    "rewrite_options",
    "rewriter_of",
    "tell",
    "told_on_terminal",
]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_SPAN: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
_SPANS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Duration(_IntParam):
    """Milliseconds, from a number with a unit: ``90s``, ``7d``."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of milliseconds. Raises `click.BadParameter`."""
        if isinstance(value, int):
            return value
        match = _SPAN.fullmatch(value.strip())
        if match is None:
            self.fail(f"{value!r} is no time: write 90s, 15m, 6h or 7d", param, ctx)
        return int(match[1]) * _SPANS_MS[match[2]]


def rewrite_options(function: Decorated) -> Decorated:
    """Add the options of both commands."""
    for option in reversed(
        (
            click.option(
                "--task-bytes",
                type=Size(),
                default="256MiB",
                show_default=True,
                metavar="SIZE",
                help="Most bytes of the archive that a Spark task looks through.",
            ),
            click.option(
                "--take-over",
                is_flag=True,
                help="Strike off a run that is listed and has not run out, because you know that it is dead.",
            ),
            click.option(
                "--dry-run", is_flag=True, help="Look through the archive and say what would go; nothing is written."
            ),
            click.option(
                "--storage-class",
                default="",
                metavar="NAME",
                help="Storage class of what is written; else the bucket's.",
            ),
            click.option(
                "--option",
                "source_options",
                multiple=True,
                callback=pairs,
                metavar="NAME=VALUE",
                help="An option of the Spark source that says how to reach the bucket: s3.access-key …",
            ),
            spark_options,
            click.option("--without-spark", is_flag=True, help="In this process alone, for a small archive."),
            click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout."),
        )
    ):
        function = option(function)
    return archive_options(function)


def read_options(given: Mapping[str, Any], topic: str) -> ReadOptions:
    """The options of the source for one topic. Raises `Invalid` for those that a run would not obey."""
    from stratalog.spark.options import parse_options  # noqa: PLC0415 - not for --help

    for name in given["source_options"]:
        if not name.lower().startswith("s3.") and name.lower() != "batchbytes":
            raise Invalid(
                f"option '{name}' is not for this command, which looks through all that is archived of a topic"
            )
    archive = store_options(given["bucket"], given["endpoint_url"], given["region"])
    read = parse_options({**given["source_options"], **archive, "archive": given["bucket"], "subscribe": topic})
    read.subscription.check_one_topic()
    return read


def completed_options(read: ReadOptions, s3a: Mapping[str, str]) -> ReadOptions:
    """What the command leaves open about S3, as the session says it."""
    from stratalog.spark.hadoop_settings import completed  # noqa: PLC0415 - not for --help

    return replace(read, store_options=completed(read.store_options, s3a, read.archive)) if s3a else read


@contextmanager
def rewriter_of(given: Mapping[str, Any], name: str) -> Iterator[tuple[Rewriter, int, Mapping[str, str]]]:
    """Who carries the run out, on how many cores, and what the session says of S3 in Hadoop's words.

    A session that was started here is stopped. Raises `Invalid` for settings of a session where there shall be none.
    """
    from stratalog.spark.rewriter import HereRewriter  # noqa: PLC0415 - not for --help

    if given["without_spark"]:
        if given["master"] or given["spark_conf"]:
            raise Invalid("--master and --conf are Spark's, and --without-spark asks for none: leave one of them out")
        yield HereRewriter(), os.cpu_count() or 1, {}
        return
    from stratalog.spark.hadoop_settings import s3a_of_session  # noqa: PLC0415
    from stratalog.spark.rewrite_spark import SparkRewriter  # noqa: PLC0415

    with spark_session(f"stratalog {name}", given["master"], given["spark_conf"]) as spark:
        yield SparkRewriter(spark), spark.sparkContext.defaultParallelism, s3a_of_session(spark)


class _Told:
    """Adds up what a run tells, for a bar."""

    def __init__(self, bar: Callable[[int, int], None]) -> None:
        self._bar = bar
        self._done_bytes = self._total_bytes = 0

    def planned(self, scan_bytes: int, group_bytes: int) -> None:
        """See `RewriteProgress`."""
        self._total_bytes = scan_bytes + group_bytes
        self._bar(0, self._total_bytes)

    def moved(self, size_bytes: int) -> None:
        """See `RewriteProgress`."""
        self._done_bytes += size_bytes
        self._bar(self._done_bytes, self._total_bytes)


@contextmanager
def told_on_terminal(topic: str) -> Iterator[_Told]:
    """A bar; bytes count twice, when they are looked through and when they are rewritten. Nothing in a pipe."""
    with progress_bar(topic) as bar:
        yield _Told(bar)


def tell(summary: RewriteSummary, seconds: float, *, dry_run: bool, as_json: bool, **more: object) -> None:
    """Say what has become of a topic: results on stdout, what was left as it was on stderr."""
    if as_json:
        click.echo(json.dumps({**asdict(summary), **more, "dry_run": dry_run, "seconds": round(seconds, 3)}))
    elif not summary.objects:
        click.echo(f"{summary.topic}: nothing new in the archive.")
    else:
        click.echo(_words(summary, seconds, dry_run=dry_run))
    for reason in [*summary.failed, *summary.refused]:
        click.echo(f"Left as it was: {reason}", err=True)


def _words(summary: RewriteSummary, seconds: float, *, dry_run: bool) -> str:
    gone = summary.records - summary.records_kept
    looked = (
        f"{summary.topic}: {gone:,} of {summary.records:,} records {'would go' if dry_run else 'went'}; "
        f"{summary.rewritten_objects} of {summary.objects} objects {'would become' if dry_run else 'became'} "
        f"{summary.new_objects}"
    )
    if dry_run:
        return (
            f"{looked}. Nothing was written.\n  {summary.gets:,} GETs of {size_text(summary.scan_bytes)} in {summary.tasks} "
            "tasks looked through the archive; a run asks as much, and reads again what it rewrites."
        )
    return (
        f"{looked}, {size_text(summary.new_bytes)} instead of {size_text(summary.old_bytes)}; "
        f"{summary.tombstones_dropped:,} tombstones went; {seconds:.1f} s."
    )
