"""``stratalog tier gc``: what attempts that were never committed have left in a bucket. No broker is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from stratalog.broker.runtime.clock import SystemClock
from stratalog.cli.bucket import bucket_options, open_bucket
from stratalog.cli.command import command
from stratalog.cli.output import ExitCode, bytes_text, json_option, note, reports_errors, write_json, write_rows
from stratalog.cli.quantities import DURATION_MS
from stratalog.wire.errors import StratalogError

if TYPE_CHECKING:
    from stratalog.tier.work.garbage_collection import PartitionGarbage

__all__ = ["gc"]

EXAMPLES: Final = """
stratalog tier gc --bucket s3://archive/prod
stratalog tier gc --bucket s3://archive/prod --topic orders --apply
stratalog tier gc --bucket file:///srv/bucket --grace 6h --json
"""
COLUMNS: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "garbage": "GARBAGE",
    "bytes": "BYTES",
    "uploads": "UPLOADS",
    "waiting": "WAITING",
    "trash": "TRASH",
    "remark": "REMARK",
}


@command("gc", EXAMPLES)
@bucket_options
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@click.option("--apply", "apply", is_flag=True, help="Remove what is found; without it nothing is written.")
@click.option(
    "--grace",
    type=DURATION_MS,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="Age from which something unnamed is garbage, beyond 15 minutes for the clocks.",
)
@json_option
@reports_errors
def gc(
    *,
    bucket: str,
    endpoint_url: str | None,
    region: str | None,
    topics: Sequence[str],
    apply: bool,
    grace: int,
    as_json: bool,
) -> None:
    """Find objects that no manifest, page, trash, job or cut names, and unfinished uploads; brokers may be writing.

    Only what belongs to a leadership that was followed by another one, and is older than the grace, is garbage; the
    rest waits (WAITING). The partition's leader removes what stands in the trash of a manifest (TRASH). Folders
    without a manifest and topics that no broker describes are reported and left alone. Exit code 0: every partition
    was judged; 4: some could not be, for the reason told, and were left alone.
    """
    from stratalog.tier.work.garbage_collection import (
        GarbageOptions,
        collect,
        collect_leases,
        collect_probes,
    )

    store = open_bucket(bucket, endpoint_url, region)
    options = GarbageOptions(SystemClock().wall_ms(), grace, apply)
    rows: list[dict[str, Any]] = []
    sums: Counter[str] = Counter()
    try:
        for found in collect(store, options, topics or None):
            row = _row(found)
            sums.update(
                {"objects": len(found.garbage), "bytes": found.size_bytes, "uploads": len(found.uploads)},
                partitions=1,
                problems=bool(found.problem),
            )
            if as_json:
                write_json({"what": "partition", **row, "keys": [info.key for info in found.garbage]})
            elif found.garbage or found.uploads or row["remark"]:
                rows.append(row | {"bytes": bytes_text(found.size_bytes)})
        if not topics:
            sums.update(leases=collect_leases(store, options), probes=collect_probes(store, options))
    except StratalogError:  # in one partition it does not hide what was found, or removed, in others
        if rows:
            write_rows(rows, COLUMNS, as_json=False)
        if sums["partitions"]:
            note(_counts(sums, apply=apply))
        raise
    _conclude(rows, sums, apply=apply, as_json=as_json)
    if sums["problems"]:
        raise SystemExit(int(ExitCode.UNHEALTHY))


def _row(found: PartitionGarbage) -> dict[str, Any]:
    from stratalog.tier.manifests.garbage import Verdict

    waiting = sum(found.kept[one] for one in (Verdict.YOUNG, Verdict.CURRENT, Verdict.LATER, Verdict.JOB, Verdict.HELD))
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "garbage": len(found.garbage),
        "bytes": found.size_bytes,
        "uploads": len(found.uploads),
        "waiting": waiting,
        "trash": found.trash_count,
        "remark": found.problem or found.remark,
    }


def _conclude(rows: Sequence[dict[str, Any]], sums: Counter[str], *, apply: bool, as_json: bool) -> None:
    if as_json:
        names = ("partitions", "objects", "bytes", "uploads", "leases", "probes", "problems")
        write_json({"what": "summary", "applied": apply, **{name: sums[name] for name in names}})
    elif rows:
        write_rows(rows, COLUMNS, as_json=False)
    is_any = any(sums[name] for name in ("objects", "uploads", "leases", "probes"))
    note(_counts(sums, apply=apply) + (" Nothing was removed: add --apply." if is_any and not apply else ""))
    if sums["problems"]:
        note(f"{sums['problems']} partitions could not be judged and were left alone: see REMARK.")


def _counts(sums: Counter[str], *, apply: bool) -> str:
    return (
        f"{'Removed' if apply else 'Found'} {sums['objects']} objects ({bytes_text(sums['bytes'])}), {sums['uploads']} unfinished "
        f"uploads, {sums['leases']} leases that ran out and {sums['probes']} objects of broken probes, in {sums['partitions']} "
        "partitions."
    )
