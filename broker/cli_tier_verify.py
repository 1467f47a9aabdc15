"""``stratalog tier verify``: is what the bucket holds what its manifests say. No broker is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from stratalog.broker.cli_bucket import Progress, bucket_options, open_bucket
from stratalog.broker.cli_command import command
from stratalog.broker.cli_http import http_json
from stratalog.broker.cli_output import ExitCode, bytes_text, json_option, note, reports_errors, write_json, write_rows
from stratalog.broker.cli_values import parse_duration_ms
from stratalog.broker.clock import SystemClock

if TYPE_CHECKING:
    from stratalog.tier.anomaly import Anomaly
    from stratalog.tier.verify_partition import PartitionReport

__all__ = ["verify"]

EXAMPLES: Final = """
stratalog tier verify --bucket s3://archive/prod
stratalog tier verify --bucket file:///srv/bucket --deep --topic orders --json
"""
COLUMNS: Final = {
    "kind": "KIND",
    "topic": "TOPIC",
    "partition": "PARTITION",
    "offset": "OFFSET",
    "key": "KEY",
    "detail": "WHAT",
}


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
    "--grace", default="1h", show_default=True, metavar="TIME", help="Age from which an unnamed object is an orphan."
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
    grace: str,
    threads: int,
    tell: str | None,
    as_json: bool,
) -> None:
    """Compare every manifest of the bucket with its pages and objects; a broker may be writing meanwhile.

    Shallow: manifests and pages are read, objects are listed, sizes compared. Deep: every object is read once, and
    the CRC of object, chunk and batch, the order of offsets and epochs, indexes and footers are checked. Nothing is
    written. Exit code 0: clean; 4: anomalies were found, one line (JSON: one object) each.
    """
    from stratalog.tier.verify import verify_bucket  # noqa: PLC0415 - the command line starts without the tier
    from stratalog.tier.verify_partition import VerifyOptions  # noqa: PLC0415

    store = open_bucket(bucket, endpoint_url, region)
    options = VerifyOptions(SystemClock().wall_ms(), parse_duration_ms(grace), deep)
    progress = Progress("verified")
    reports = verify_bucket(store, options, topics=topics, threads=threads, on_object=progress.add)
    found: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    sums = _Sums()
    for report in reports:
        sums.add(report)
        for anomaly in report.anomalies:
            found[anomaly.kind] += 1
            row = _row(anomaly)
            if as_json:
                write_json({"what": "anomaly", **row, "advice": anomaly.kind.advice})
            rows.append(row)
    if tell is not None:
        outcome = {"bucket": bucket, "deep": deep, "topics": list(topics), **sums.counts(found)}
        http_json(tell, "POST", "/v1/tier/verification", outcome)
    _conclude(sums, rows, found, as_json=as_json)


class _Sums:
    """What was looked at."""

    def __init__(self) -> None:
        self.partitions = self.objects = self.size_bytes = self.untold = 0

    def add(self, report: PartitionReport) -> None:
        """One partition more."""
        self.partitions += report.partition.partition >= 0
        self.objects += report.object_count
        self.size_bytes += report.size_bytes
        self.untold += report.untold

    def counts(self, found: Counter[str]) -> dict[str, int]:
        """For the broker."""
        return {
            "partitions": self.partitions,
            "objects": self.objects,
            "size_bytes": self.size_bytes,
            "anomalies": found.total() + self.untold,
        }


def _row(anomaly: Anomaly) -> dict[str, Any]:
    return {
        "kind": str(anomaly.kind),
        "topic": anomaly.topic or None,
        "partition": anomaly.partition if anomaly.partition >= 0 else None,
        "offset": anomaly.offset if anomaly.offset >= 0 else None,
        "key": anomaly.key,
        "detail": anomaly.detail,
    }


def _conclude(sums: _Sums, rows: Sequence[dict[str, Any]], found: Counter[str], *, as_json: bool) -> None:
    """The table and the sums; the exit code."""
    from stratalog.tier.anomaly import AnomalyKind  # noqa: PLC0415

    count = sum(found.values()) + sums.untold
    if as_json:
        write_json(
            {
                "what": "summary",
                "partitions": sums.partitions,
                "objects": sums.objects,
                "bytes": sums.size_bytes,
                "anomalies": count,
                "kinds": dict(sorted(found.items())),
            }
        )
    elif rows:
        write_rows(rows, COLUMNS, as_json=False)
        for kind in sorted(found):
            note(f"{kind} ({found[kind]}): {AnomalyKind(kind).meaning} {AnomalyKind(kind).advice}")
    if sums.untold:
        note(f"{sums.untold} more of the same kinds are not listed.")
    looked = f"{sums.partitions} partitions, {sums.objects} objects, {bytes_text(sums.size_bytes)}"
    note(f"{count} anomalies in {looked}." if count else f"Clean: {looked}.")
    if count:
        raise SystemExit(int(ExitCode.UNHEALTHY))
