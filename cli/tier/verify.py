"""``stratalog tier verify``: is what the bucket holds what its manifests say. No broker is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from stratalog.broker.runtime.clock import SystemClock
from stratalog.cli.bucket import Progress, bucket_options, open_bucket
from stratalog.cli.command import command
from stratalog.cli.http import http_json
from stratalog.cli.output import ExitCode, bytes_text, json_option, note, reports_errors, write_json, write_rows
from stratalog.cli.quantities import DURATION_MS
from stratalog.wire.errors import StratalogError

if TYPE_CHECKING:
    from stratalog.tier.care.verify_summary import VerifySummary

__all__ = ["verify"]

EXAMPLES: Final = """
stratalog tier verify --bucket s3://archive/prod
stratalog tier verify --bucket file:///srv/bucket --deep --topic orders --json
"""


@command("verify", EXAMPLES)
@bucket_options
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@click.option(
    "--deep/--shallow",
    "deep",
    default=False,
    help="Read every byte and check every CRC, or compare manifests with the listing (the default).",
)
@click.option(
    "--grace",
    type=DURATION_MS,
    default="1h",
    show_default=True,
    metavar="TIME",
    help="Age from which an unnamed object is an orphan.",
)
@click.option("--threads", type=click.IntRange(1, 64), default=8, show_default=True, help="Requests side by side.")
@click.option(
    "--tell", metavar="HOST:PORT", help="Tell the broker with this HTTP address how it went: its page shows the latest."
)
@json_option
@reports_errors
def verify(
    *,
    bucket: str,
    endpoint_url: str | None,
    region: str | None,
    topics: Sequence[str],
    deep: bool,
    grace: int,
    threads: int,
    tell: str | None,
    as_json: bool,
) -> None:
    """Compare every manifest of the bucket with its pages and objects; a broker may be writing meanwhile.

    Shallow: manifests and pages are read, objects are listed, sizes compared. Deep: every object is read once, and
    the CRC of object, chunk and batch, the order of offsets and epochs, indexes and footers are checked. The command
    writes nothing. Exit code 0: clean; 4: anomalies were found, one line (JSON: one object) each.
    """
    from stratalog.tier.care.verify import verify_bucket
    from stratalog.tier.care.verify_partition import VerifyOptions
    from stratalog.tier.care.verify_summary import VerifySummary, anomaly_row

    store = open_bucket(bucket, endpoint_url, region)
    options = VerifyOptions(SystemClock().wall_ms(), grace, deep)
    progress = Progress("verified")
    reports = verify_bucket(store, options, topics=topics, threads=threads, on_object=progress.add)
    rows: list[dict[str, Any]] = []
    summary = VerifySummary()
    try:
        for report in reports:
            summary.add(report)
            for anomaly in report.anomalies:
                row = anomaly_row(anomaly)
                if as_json:
                    write_json({"what": "anomaly", **row, "advice": anomaly.kind.advice})
                rows.append(row)
    except StratalogError:
        _write_rows(rows, as_json=as_json)  # an error in one partition does not hide what was found in others
        note(
            f"Not looked at to the end: {summary.partition_count} partitions were, and {summary.anomaly_count} anomalies found."
        )
        raise
    _conclude(summary, rows, as_json=as_json)
    if tell is not None:
        try:
            _tell(tell, {"bucket": bucket, "deep": deep, "topics": list(topics)}, summary)
        except StratalogError as error:
            if not summary.anomaly_count:
                raise
            note(f"Error: {error}")  # what was found counts for more
    if summary.anomaly_count:
        raise SystemExit(int(ExitCode.UNHEALTHY))


def _tell(http: str, asked: dict[str, Any], summary: VerifySummary) -> None:
    counts = {
        "partitions": summary.partition_count,
        "objects": summary.object_count,
        "size_bytes": summary.size_bytes,
        "anomalies": summary.anomaly_count,
    }
    http_json(http, "POST", "/v1/tier/verification", {**asked, **counts})


def _conclude(summary: VerifySummary, rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """The table and the sums."""
    _write_rows(rows, as_json=as_json)
    if as_json:
        write_json(summary.row())
    for line in summary.untold() if as_json else summary.advice():
        note(line)
    note(summary.conclusion(bytes_text(summary.size_bytes)))


def _write_rows(rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """The table; as JSON each row was written when it was found."""
    from stratalog.tier.care.verify_summary import COLUMNS

    if rows and not as_json:
        write_rows(rows, COLUMNS, as_json=False)
