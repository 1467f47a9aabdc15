"""Shared by ``stratalog compact`` and ``stratalog erase``: their options,
the rewriter that carries the run out, the report.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stratalog.cli.output import bytes_text
from stratalog.cli.quantities import SIZE_BYTES
from stratalog.cli.spark.options import (
    archive_options,
    check_before_spark,
    check_topics,
    pairs,
    progress_bar,
    spark_options,
    spark_session,
    store_options,
)
from stratalog.quantities import parse_duration_ms
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    from stratalog.spark.rewrite.compact import CompactSettings
    from stratalog.spark.rewrite.erase import EraseSettings
    from stratalog.spark.rewrite.rewriter import RewriteProgress, Rewriter
    from stratalog.spark.rewrite.summary import RewriteSummary
    from stratalog.spark.source.options import ReadOptions

    _IntParam = click.ParamType[int]
else:
    _IntParam = click.ParamType  # not generic in the older releases that we accept

__all__ = [
    "Duration",
    "completed_options",
    "read_options",
    "rewrite_options",
    "rewrite_topics",
    "rewriter_of",
    "tell",
    "tell_unread",
    "told_on_terminal",
]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Settings = TypeVar("Settings", bound="CompactSettings | EraseSettings")
Summary = TypeVar("Summary")
_FAILED: Final = 1
_NAMED_MAX: Final = 20


class Duration(_IntParam):
    """Milliseconds, from a number with a unit: ``90s``, ``7d``."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of milliseconds. Raises `click.BadParameter`."""
        if isinstance(value, int):
            return value
        refusal = f"{value!r} is no time: write 90s, 15m, 6h or 7d"
        # A bare number may mean days or milliseconds, which differ too much to guess.
        if value.strip()[-1:].isdecimal():
            self.fail(refusal, param, ctx)
        try:
            span_ms = parse_duration_ms(value)
        except Invalid:
            self.fail(refusal, param, ctx)
        if span_ms < 0:
            self.fail(refusal, param, ctx)
        return span_ms


def rewrite_options(function: Decorated) -> Decorated:
    """Add the options of both commands."""
    for option in reversed(
        (
            click.option(
                "--task-bytes",
                type=SIZE_BYTES,
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
    from stratalog.spark.source.options import parse_options

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
    """The options, with those about S3 that the command leaves open taken from the session."""
    from stratalog.spark.environment.hadoop_settings import completed

    return replace(read, store_options=completed(read.store_options, s3a, read.archive)) if s3a else read


@contextmanager
def rewriter_of(given: Mapping[str, Any], name: str) -> Iterator[tuple[Rewriter, int, Mapping[str, str]]]:
    """The rewriter that carries the run out, the cores it has, and the session's settings of S3 in Hadoop's words.

    A session that was started here is stopped. Raises `Invalid` for settings of a session where none may be given.
    """
    from stratalog.spark.rewrite.rewriter import HereRewriter

    if given["without_spark"]:
        if given["master"] or given["spark_conf"]:
            raise Invalid("--master and --conf need Spark, which --without-spark leaves out: drop one of them")
        yield HereRewriter(), os.cpu_count() or 1, {}
        return
    from stratalog.spark.environment.hadoop_settings import s3a_of_session
    from stratalog.spark.rewrite.spark_job import SparkRewriter

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
    """A bar; bytes count twice, when they are looked through and when they are rewritten. Prints nothing in a pipe."""
    with progress_bar(topic) as bar:
        yield _Told(bar)


def rewrite_topics(
    given: Mapping[str, Any],
    name: str,
    settings: Sequence[Settings],
    run: Callable[[Settings, Rewriter, RewriteProgress], Summary],
    report: Callable[[Summary, float], bool],
) -> None:
    """Run the command ``name`` on each topic. ``report`` prints a summary with its seconds; it returns True if whole.

    Exits with 1 if a run was not whole. Raises `Invalid` before the first run if a topic is missing or has no archive.
    """
    check_before_spark([each.read for each in settings])
    whole = True
    with rewriter_of(given, name) as (rewriter, cores, s3a):
        chosen = [replace(each, read=completed_options(each.read, s3a), core_count=cores) for each in settings]
        check_topics([each.read for each in chosen])
        for each in chosen:
            started_s = monotonic_ns() / 1e9
            with told_on_terminal(each.topic) as told:
                summary = run(each, rewriter, told)
            whole = report(summary, monotonic_ns() / 1e9 - started_s) and whole
    if not whole:
        raise SystemExit(_FAILED)


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


def tell_unread(summary: RewriteSummary, outcome: str) -> None:
    """Name the batches that could not be read, on stderr; of very many the first ones."""
    for batch in summary.unread[:_NAMED_MAX]:
        click.echo(f"{batch}, cannot be read as its producer sent it: {outcome}", err=True)
    if len(summary.unread) > _NAMED_MAX:
        click.echo(f"... and {len(summary.unread) - _NAMED_MAX} such batches more, which --json names.", err=True)


def _words(summary: RewriteSummary, seconds: float, *, dry_run: bool) -> str:
    gone = summary.records - summary.records_kept
    looked = (
        f"{summary.topic}: {gone:,} of {summary.records:,} records {'would go' if dry_run else 'went'}; "
        f"{summary.rewritten_objects} of {summary.objects} objects {'would become' if dry_run else 'became'} "
        f"{summary.new_objects}"
    )
    if dry_run:
        return (
            f"{looked}. The bucket is unchanged.\n  {summary.gets:,} GETs of {bytes_text(summary.scan_bytes)} in {summary.tasks} "
            "tasks looked through the archive; a run asks as much, and reads again what it rewrites."
        )
    return (
        f"{looked}, {bytes_text(summary.new_bytes)} instead of {bytes_text(summary.old_bytes)}; "
        f"{summary.tombstones_dropped:,} tombstones went; {seconds:.1f} s."
    )
