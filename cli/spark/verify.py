"""``stratalog verify``: every byte of a bucket is read and checked, by Spark's tasks. No broker is asked.

Also ``python -m stratalog.spark verify``, and ``spark-submit`` with ``stratalog/spark/jobs/verify.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from stratalog.cli.output import bytes_text, write_rows
from stratalog.cli.spark.options import (
    archive_options,
    progress_bar,
    spark_options,
    spark_session,
    store_options,
)

if TYPE_CHECKING:
    from stratalog.tier.care.verify_partition import PartitionReport

__all__ = ["EXAMPLES", "verify"]

EXAMPLES: Final = """
stratalog verify --bucket s3://archive/prod --master spark://head:7077
stratalog verify --bucket file:///srv/bucket --topic orders --json
"""


@click.command("verify")
@archive_options
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@click.option("--grace", "grace_seconds", type=click.FloatRange(min=0), default=3600.0, show_default=True, metavar="SECONDS", help="Age from which an unnamed object is an orphan.")  # fmt: skip
@spark_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
def verify(
    *,
    bucket: str,
    endpoint_url: str | None,
    region: str | None,
    topics: Sequence[str],
    grace_seconds: float,
    master: str | None,
    spark_conf: Mapping[str, str],
    as_json: bool,
) -> None:
    """Do what `stratalog tier verify --deep` does, with the objects read by Spark; a broker may be writing meanwhile.

    Every object is read once, and the CRC of object, chunk and batch, the order of offsets and epochs, indexes and
    footers are checked; manifests are compared with their pages and with the listing. The command writes nothing. Exit
    code
    0: clean; 4: anomalies were found, one line (JSON: one object) each.
    """
    from stratalog.spark.environment.hadoop_settings import completed, s3a_of_session
    from stratalog.spark.reports.verify import verify_on_spark
    from stratalog.spark.sessions.spark_tasks import SparkTasks
    from stratalog.tier.care.verify_partition import VerifyOptions

    options = VerifyOptions(time.time_ns() // 1_000_000, int(grace_seconds * 1000))
    given = store_options(bucket, endpoint_url, region)
    with spark_session("stratalog verify", master, spark_conf) as spark:
        given = completed(given, s3a_of_session(spark), bucket)
        with progress_bar("verified") as tell:
            reports = list(verify_on_spark(SparkTasks(spark), bucket, given, options, topics=topics, on_progress=tell))
    _tell(reports, as_json=as_json)


def _tell(reports: Iterable[PartitionReport], *, as_json: bool) -> None:
    """Rows and JSON are those of `stratalog tier verify`."""
    from stratalog.tier.care.verify_summary import COLUMNS, UNHEALTHY, VerifySummary, anomaly_row

    summary = VerifySummary()
    found = []
    for report in reports:
        summary.add(report)
        found += report.anomalies
    if as_json:
        for anomaly in found:
            click.echo(json.dumps({"what": "anomaly", **anomaly_row(anomaly), "advice": anomaly.kind.advice}))
        click.echo(json.dumps(summary.row()))
    elif found:
        write_rows([anomaly_row(anomaly) for anomaly in found], COLUMNS, as_json=False)
    for line in summary.untold() if as_json else summary.advice():
        click.echo(line, err=True)
    click.echo(summary.conclusion(bytes_text(summary.size_bytes)), err=True)
    if summary.anomaly_count:
        raise SystemExit(UNHEALTHY)
