"""``stratalog cut``: names for what an archive held at one time, over many partitions. No broker is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from stratalog.broker.runtime.clock import SystemClock
from stratalog.cli.bucket import Progress, bucket_options, open_bucket
from stratalog.cli.command import ExampleGroup
from stratalog.cli.output import ExitCode, bytes_text, json_option, note, reports_errors, write_rows
from stratalog.cli.restore import note_differences
from stratalog.cli.values import parse_time_ms, time_text

if TYPE_CHECKING:
    from stratalog.tier.bucket.cuts import Cut
    from stratalog.tier.stores.store import ObjectStore

__all__ = ["cut"]

LIST_COLUMNS: Final = {
    "name": "NAME",
    "created": "CREATED",
    "state": "STATE",
    "topics": "TOPICS",
    "partitions": "PARTITIONS",
    "groups": "GROUPS",
    "id": "ID",
}
SHOW_COLUMNS: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "log_start": "LOG START",
    "end": "END",
    "seq": "MANIFEST",
}
NO_DOCUMENT: Final = "no document"

cut = ExampleGroup(
    "cut",
    help="Name what the archive holds now, over many partitions.",
    no_args_is_help=True,
    examples="""
    stratalog cut create before-upgrade --bucket s3://archive/prod
    stratalog cut list --bucket s3://archive/prod
    stratalog consume orders@before-upgrade --exit
    """,
)


@cut.command(
    "create",
    examples="""
    stratalog cut create before-upgrade --bucket s3://archive/prod
    stratalog cut create year-end --topic orders --topic payments --at 2026-01-01T00:00Z --bucket file:///srv/bucket
    """,
)
@click.argument("name")
@bucket_options
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@click.option("--at", metavar="TIME", help="End every partition before its first record of that time or later.")
@json_option
@reports_errors
def create(
    *,
    name: str,
    bucket: str,
    endpoint_url: str | None,
    region: str | None,
    topics: Sequence[str],
    at: str | None,
    as_json: bool,
) -> None:
    """Make the cut NAME of all topics in the bucket, or of those named: each partition as far as it is archived now.

    The objects of a cut stay in the bucket until the cut is deleted, whatever retention says; merges go on. A broker
    may be writing meanwhile. The cut also holds the offsets that groups have committed for these topics, as brokers
    copied them to the bucket last. Read it as TOPIC@NAME, from a broker or a mount. If it is interrupted, delete it.
    """
    from stratalog.tier.work.cut_commands import create_cut, end_at

    ends: dict[str, Any] = {} if at is None else {"end_of": end_at(parse_time_ms(at))}
    store = _open_to_write(bucket, endpoint_url, region)
    made = create_cut(store, name, now_ms=SystemClock().wall_ms(), topics=topics, on_problem=note, **ends)
    _write_partitions(made, as_json=as_json)
    groups = f" and the offsets of {made.group_count} groups" if made.group_count else ""
    note(f"The cut {made.name} holds {len(made.partitions)} partitions of {len(made.topics)} topics{groups}.")


@cut.command("list", examples="stratalog cut list --bucket s3://archive/prod\nstratalog cut list --check --bucket …")
@bucket_options
@click.option("--check", is_flag=True, help="Read every manifest, too: are there pins of cuts that have no document?")
@json_option
@reports_errors
def list_cuts(*, bucket: str, endpoint_url: str | None, region: str | None, check: bool, as_json: bool) -> None:
    """List the cuts of a bucket. STATE is complete for those that can be read.

    creating: it was interrupted, or is being made now; deleting: its deletion was. Both are ended by cut delete.
    Exit code 0; 4 with --check if there are pins without a document, or any document that cannot be read.
    """
    from stratalog.tier.work.cut_commands import dangling_pins, find_cuts

    store = open_bucket(bucket, endpoint_url, region)
    rows: list[dict[str, Any]] = []
    problems = 0
    for key, found, problem in find_cuts(store):
        if found is None:
            problems += 1
            note(problem)
            rows.append({"name": None, "state": "damaged", "id": key})
        else:
            rows.append(_row(found))
    for cut_id, partitions in dangling_pins(store).items() if check else ():
        problems += 1
        rows.append({"name": None, "state": NO_DOCUMENT, "partitions": len(partitions), "id": cut_id})
    write_rows(rows, LIST_COLUMNS, as_json=as_json)
    if check and problems:
        raise SystemExit(int(ExitCode.UNHEALTHY))


@cut.command("show", examples="stratalog cut show before-upgrade --bucket s3://archive/prod --json")
@click.argument("name")
@bucket_options
@json_option
@reports_errors
def show(*, name: str, bucket: str, endpoint_url: str | None, region: str | None, as_json: bool) -> None:
    """Show up to which offset each partition belongs to the cut NAME. END is exclusive.

    MANIFEST is the number of the manifest that was pinned; 0 is a partition that had archived nothing.
    """
    from stratalog.tier.work.cut_commands import read_cut

    found = read_cut(open_bucket(bucket, endpoint_url, region), name)
    if found.state != "complete":
        note(f"The cut {found.name} is {found.state}: it cannot be read.")
    _write_partitions(found, as_json=as_json)


@cut.command("delete", examples="stratalog cut delete before-upgrade --bucket s3://archive/prod")
@click.argument("name")
@bucket_options
@reports_errors
def delete(*, name: str, bucket: str, endpoint_url: str | None, region: str | None) -> None:
    """Delete the cut NAME, by name or whole id, also one that was interrupted: retention decides again.

    Pins of a cut without a document (cut list --check) are taken away by its id.
    """
    from stratalog.tier.work.cut_commands import (
        CutUnknown,
        dangling_pins,
        delete_cut,
        drop_pins,
        read_cut,
    )

    store = _open_to_write(bucket, endpoint_url, region)
    now_ms = SystemClock().wall_ms()
    try:
        unpinned = delete_cut(store, read_cut(store, name), now_ms=now_ms)
    except CutUnknown:
        partitions = dangling_pins(store).get(name)
        if partitions is None:
            raise
        unpinned = drop_pins(store, name, partitions, now_ms=now_ms)
    note(f"The cut {name} is gone; {unpinned} manifests held it.")


@cut.command(
    "restore",
    examples="""
    stratalog cut restore before-upgrade --bucket s3://archive/prod --data /var/lib/restored
    stratalog cut restore year-end --topic orders --bucket file:///srv/bucket --data ./orders-year-end
    """,
)
@click.argument("name")
@bucket_options
@click.option("--data", required=True, metavar="DIR", help="The new data directory: log.dirs. Must be empty.")
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@click.option("--node-id", type=click.IntRange(0), default=1, show_default=True, help="node.id of the restored broker.")
@reports_errors
def restore(
    *,
    name: str,
    bucket: str,
    endpoint_url: str | None,
    region: str | None,
    data: str,
    topics: Sequence[str],
    node_id: int,
) -> None:
    """Fetch every record of the cut NAME into the data directory of a new broker.

    Topics, partitions, offsets, leader epochs, producers and settings are those of the cut; the cluster and the ids of
    the topics are new, retention is switched off (retention.ms=-1), and nothing is tiered. Groups have the offsets that
    they had committed when the cut was made, at most the end of the cut. The bucket is only read.
    To look at a cut without fetching it, read TOPIC@NAME.
    """
    from stratalog.broker.restore.cut_restore import cut_restorer
    from stratalog.broker.restore.restorer import check_target
    from stratalog.tier.work.cut_commands import read_cut

    check_target(data)
    store = open_bucket(bucket, endpoint_url, region)
    progress = Progress("fetched")
    restorer = cut_restorer(
        store,
        read_cut(store, name),
        data,
        topics=topics,
        node_id=node_id,
        now_ms=SystemClock().wall_ms(),
        on_bytes=progress.add,
    )
    report = restorer.run()
    note_differences(report)
    note(
        f"Restored {report.topics} topics, {report.partitions} partitions, {report.groups} groups, "
        f"{bytes_text(progress.size_bytes)}. "
        f"Start: stratalog serve --data {data} --set node.id={node_id}"
    )


def _open_to_write(bucket: str, endpoint_url: str | None, region: str | None) -> ObjectStore:
    """The store, tried out: one that ignores conditions would lose what others write meanwhile."""
    from stratalog.tier.stores.probe import probe

    store = open_bucket(bucket, endpoint_url, region)
    probe(store).require(multi_writer=True)
    return store


def _row(found: Cut) -> dict[str, Any]:
    return {
        "name": found.name,
        "created": time_text(found.created_ms),
        "state": str(found.state),
        "topics": len(found.topics),
        "partitions": len(found.partitions),
        "groups": found.group_count,
        "id": found.cut_id,
    }


def _write_partitions(found: Cut, *, as_json: bool) -> None:
    rows = [
        {
            "topic": member.partition.topic,
            "partition": member.partition.partition,
            "log_start": member.log_start_offset,
            "end": member.end_offset,
            "seq": member.seq,
        }
        for member in found.partitions
    ]
    write_rows(rows, SHOW_COLUMNS, as_json=as_json)
