"""``stratalog backfill``: archived topics into Parquet files, by Spark and without a broker.

Also ``python -m stratalog.spark backfill``, and ``spark-submit`` with ``stratalog/spark/jobs/backfill.py``. Importing
this module starts nothing and imports no Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from time import monotonic_ns, sleep
from typing import TYPE_CHECKING, Any, Final

import click

from stratalog.cli.output import bytes_text
from stratalog.cli.quantities import SIZE_BYTES
from stratalog.cli.spark.options import (
    COLUMN_OPTIONS,
    TASK_OPTIONS,
    check_topics,
    pairs,
    refuse_options,
    session_may_know_more,
    spark_options,
    store_options,
)
from stratalog.cli.spark.spark_on_demand import SparkOnDemand
from stratalog.cli.values import read_text_file
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    from stratalog.spark.backfill.backfill import BackfillSettings, Summary
    from stratalog.spark.backfill.plan import BackfillPlan
    from stratalog.spark.source.options import ReadOptions
    from stratalog.tier.planning.prices import PriceTable

__all__ = ["EXAMPLES", "backfill"]

EXAMPLES: Final = """
stratalog backfill --bucket s3://archive/prod --topic orders --to s3://lake/raw
stratalog backfill --bucket file:///srv/archive --topic orders --to lake --dry-run
stratalog backfill --bucket s3://archive/prod --topic orders --to s3://lake/raw --follow 60
"""
_FILE_BYTES_MAX: Final = 4 << 30
"""S3 copies no more than 5 GiB by one request."""
_NAMED_MAX: Final = 20


@click.command("backfill")
@click.option("--bucket", required=True, metavar="URL", help="The archive: s3://bucket/prefix, file:///path or another fsspec URL.")  # fmt: skip
@click.option("--topic", "topics", required=True, multiple=True, metavar="TOPIC", help="Topic to convert; may be repeated.")  # fmt: skip
@click.option(
    "--to",
    "target",
    required=True,
    metavar="DIR|URL|TABLE",
    help="Where to: a directory, s3://bucket/prefix, iceberg:catalog.namespace.table or delta:URL.",
)
@click.option("--partition-by", "partitioning", default="date", show_default=True, metavar="LIST", help="Folders below the topic's: date or hour of the record (UTC), none, value.FIELD of JSON values, or a list like date,value.carrier.")  # fmt: skip
@click.option("--file-bytes", type=SIZE_BYTES, default="256MiB", show_default=True, metavar="SIZE", help="Size of a file to aim at.")  # fmt: skip
@click.option("--task-bytes", type=SIZE_BYTES, default="256MiB", show_default=True, metavar="SIZE", help="Most bytes of the archive a Spark task.")  # fmt: skip
@click.option("--run-bytes", type=SIZE_BYTES, default="16GiB", show_default=True, metavar="SIZE", help="Commit after so many bytes of the archive, or after a span of offsets that has more: the cores share what there is, in spans of 32 MiB at least. A kill loses no more than that.")  # fmt: skip
@click.option("--min-file-bytes", "file_bytes_min", type=SIZE_BYTES, default="0", metavar="SIZE", help="Leave a partition's newest records for later while they are fewer bytes in the archive.")  # fmt: skip
@click.option("--max-wait", "wait_seconds", type=click.FloatRange(min=0), default=3600.0, show_default=True, metavar="SECONDS", help="But not for longer than this after their upload.")  # fmt: skip
@click.option("--rewrite", is_flag=True, help="Convert anew what was compacted in the archive since.")
@click.option("--follow", "follow_seconds", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Go on, and look for more so often.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be read and written and what it costs; nothing is done.")
@click.option("--option", "source_options", multiple=True, callback=pairs, metavar="NAME=VALUE", help="Any option of the Spark source: startingTimestamp, kafka.isolation.level, failOnDataLoss …")  # fmt: skip
@click.option("--endpoint-url", metavar="URL", help="Another S3 server than Amazon's.")
@click.option("--region", metavar="NAME", help="The region of the bucket.")
@click.option("--to-endpoint-url", metavar="URL", help="The S3 server of the target; else that of the archive.")
@click.option("--to-region", metavar="NAME", help="The region of the target; else that of the archive.")
@spark_options
@click.option("--cores", type=click.IntRange(min=1), metavar="COUNT", help="Cores that share the work; else Spark says, or this machine for --dry-run.")  # fmt: skip
@click.option("--store", "store_name", metavar="NAME", help="Price table to use; else the first that fits the bucket's URL.")  # fmt: skip
@click.option("--prices", "price_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Your own price tables (TOML), before those that come along.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
def backfill(**given: Any) -> None:
    """Convert archived topics to Parquet files, with Spark and without a broker.

    Incremental: what was converted is left alone, what came since is added, each record once whatever dies in
    between. Records become <to>/<topic>/date=YYYY-MM-DD/*.parquet with the columns of the Spark source; the ledger
    of what is converted lies in <to>/_stratalog. If two backfills write to one target, one of them ends with exit code
    1.
    """
    chosen = [_settings(given, topic) for topic in given["topics"]]
    if given["dry_run"]:
        for settings in chosen:
            _foresee(settings, given)
        return
    with ExitStack() as stack:
        spark = SparkOnDemand(stack, given["master"], given["spark_conf"], given["cores"])
        if any(session_may_know_more(settings.read) for settings in chosen):
            spark.start()
        chosen = [spark.completed(settings) for settings in chosen]
        check_topics([settings.read for settings in chosen])
        _convert(chosen, spark, given)


def _settings(given: Mapping[str, Any], topic: str) -> BackfillSettings:
    from stratalog.spark.backfill.backfill import BackfillSettings
    from stratalog.spark.environment.hadoop_settings import completed, s3a_of_configuration
    from stratalog.spark.ledger.folders import folder_columns
    from stratalog.spark.sinks import is_table, open_table
    from stratalog.spark.source.options import parse_options

    folder_columns(given["partitioning"])
    if not 0 < given["file_bytes"] <= _FILE_BYTES_MAX:
        raise Invalid(f"--file-bytes is at least 1 and at most {_FILE_BYTES_MAX}, not {given['file_bytes']}")
    s3a = s3a_of_configuration(given["spark_conf"])
    archive = store_options(given["bucket"], given["endpoint_url"], given["region"])
    options = {**given["source_options"], **archive, "archive": given["bucket"], "subscribe": topic}
    read = parse_options(completed(options, s3a, given["bucket"]) if s3a else options)
    place = given["target"].removeprefix("delta:")
    target = store_options(
        place, given["to_endpoint_url"] or given["endpoint_url"], given["to_region"] or given["region"]
    )
    target = completed(target, s3a, place) if s3a else target
    read.subscription.check_one_topic()
    _refuse(read, given["source_options"])
    for name in ("s3.access-key", "s3.secret-key", "s3.session-token", "s3.ca-bundle", "s3.addressing-style"):
        if target and name in read.store_options:
            target.setdefault(name, read.store_options[name])
    place, table = given["target"], None
    if is_table(place):
        table = open_table(place, given["partitioning"], target, create=not given["dry_run"])
        place, target = (table.files_url, dict(table.files_options)) if table else ("memory:no-table-yet", {})
    return BackfillSettings(
        topic=topic,
        read=read,
        target=place,
        table=table,
        target_options=target,
        partitioning=given["partitioning"],
        file_bytes=given["file_bytes"],
        task_bytes=given["task_bytes"],
        run_bytes=given["run_bytes"],
        file_bytes_min=given["file_bytes_min"],
        file_wait_ms=int(given["wait_seconds"] * 1000),
        core_count=given["cores"] or os.cpu_count() or 1,
        rewrite=given["rewrite"],
    )


def _refuse(read: ReadOptions, given: Mapping[str, str]) -> None:
    """Options of the source that a copy of the archive has no use for. Raises `Invalid`."""
    refuse_options(given, COLUMN_OPTIONS, "files hold all columns, and are made of what is archived")
    refuse_options(given, TASK_OPTIONS, "say --task-bytes")
    if read.bad_records_url is not None:
        raise Invalid(
            "option 'badRecords' is not for a backfill, which would call damaged offsets converted: repair the archive, "
            "or let failOnDataLoss=false leave out objects that are gone"
        )
    if read.values.decoded():
        raise Invalid(
            "keyFormat and valueFormat are not for a backfill: files hold keys and values as they were written"
        )
    if read.hot_tail is not None:
        raise Invalid("option 'hotTail' is not for a backfill, which converts archived records only")


def _convert(chosen: Sequence[BackfillSettings], spark: SparkOnDemand, given: Mapping[str, Any]) -> None:
    """Backfill each topic; with ``--follow`` again and again, until interrupted."""
    from stratalog.cli.spark.progress import ProgressBar
    from stratalog.spark.backfill.backfill import backfill as run

    while True:
        for settings in chosen:
            started_s = monotonic_ns() / 1e9
            prepared = spark.prepare(settings)
            with ProgressBar(settings.topic) as bar:
                summary = run(prepared, spark, bar)
            if summary.runs or given["follow_seconds"] is None:
                _tell(settings, summary, monotonic_ns() / 1e9 - started_s, as_json=given["as_json"])
        if given["follow_seconds"] is None:
            return
        try:
            sleep(given["follow_seconds"])
        except KeyboardInterrupt:
            return


def _tell(settings: BackfillSettings, summary: Summary, seconds: float, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"topic": settings.topic, **asdict(summary), "seconds": round(seconds, 3)}))
    elif not summary.runs:
        click.echo(f"{settings.topic}: nothing new in the archive.")
    else:
        click.echo(
            f"{settings.topic}: {summary.rows:,} rows in {summary.files} files, {bytes_text(summary.file_bytes)} of "
            f"{bytes_text(summary.source_bytes)} in the archive, {seconds:.1f} s, {summary.rows / seconds:,.0f} rows/s."
        )
    if summary.abandoned:
        click.echo(
            f"{settings.topic}: the archive was taken back to a cut, repaired or begun again since: the rows of "
            f"{summary.abandoned} spans of offsets were replaced by what it holds now.",
            err=True,
        )
    for partition, start, end in summary.left_out[:_NAMED_MAX]:
        click.echo(
            f"{settings.topic}-{partition}: offsets {start} to {end - 1} are left out: what a producer sent there cannot be "
            f"read.",
            err=True,
        )
    if len(summary.left_out) > _NAMED_MAX:
        click.echo(f"... and {len(summary.left_out) - _NAMED_MAX} such ranges more, which --json names.", err=True)
    if summary.stale:
        click.echo(
            f"{settings.topic}: {summary.stale} spans were compacted in the archive since they were converted; "
            f"--rewrite converts them anew.",
            err=True,
        )


def _foresee(settings: BackfillSettings, given: Mapping[str, Any]) -> None:
    from stratalog.spark.backfill.backfill import foresee_backfill

    plan = foresee_backfill(settings)
    costs = [
        (prices.cost(usage), prices.currency) if (prices := _prices(url, given)) else (None, "")
        for url, usage in ((settings.read.archive, plan.usage), (settings.target, plan.target_usage))
    ]
    if given["as_json"]:
        click.echo(json.dumps(_plan_row(settings, plan, costs)))
        return
    usage, target = plan.usage, plan.target_usage
    click.echo(
        f"{settings.topic}: {plan.offsets:,} offsets in {plan.spans} spans, {plan.tasks} tasks, {plan.runs} commits.\n"
        f"  from the archive: {usage.reads:,} GETs, {bytes_text(usage.received_bytes)}{_cost(*costs[0])}\n"
        f"  to the target:    about {plan.files:,} files, {target.writes + target.lists:,} PUTs, COPYs and LISTs"
        f"{_cost(*costs[1])}"
    )


def _plan_row(
    settings: BackfillSettings, plan: BackfillPlan, costs: Sequence[tuple[float | None, str]]
) -> dict[str, object]:
    return {
        "topic": settings.topic,
        "offsets": plan.offsets,
        "source_bytes": plan.source_bytes,
        "spans": plan.spans,
        "tasks": plan.tasks,
        "runs": plan.runs,
        "files": plan.files,
        "gets": plan.usage.reads,
        "received_bytes": plan.usage.received_bytes,
        "puts": plan.target_usage.writes,
        "cost": costs[0][0],
        "target_cost": costs[1][0],
        "currency": costs[0][1] or costs[1][1] or None,
    }


def _prices(url: str, given: Mapping[str, Any]) -> PriceTable | None:
    from stratalog.tier.planning.prices import price_table, read_price_tables

    own = read_text_file(given["price_file"]) if given["price_file"] else ""
    scheme = url if ":" in url else "file:"
    name = None if scheme.startswith("file:") else given["store_name"]
    return price_table(read_price_tables(own, given["price_file"] or ""), scheme, name=name)


def _cost(cost: float | None, currency: str) -> str:
    return "" if cost is None else f", {cost:.4g} {currency}"
