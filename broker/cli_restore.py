"""``stratalog restore``: a broker's data directory from its bucket alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from stratalog.broker.cli_bucket import Progress, bucket_options, open_bucket
from stratalog.broker.cli_command import command
from stratalog.broker.cli_output import bytes_text, json_option, note, reports_errors, write_json
from stratalog.broker.clock import SystemClock

if TYPE_CHECKING:
    from stratalog.broker.restore import RestoreReport
    from stratalog.tier.restore_plan import BucketState
    from stratalog.tier.store import ObjectStore

__all__ = ["restore"]

EXAMPLES: Final = """
stratalog restore --bucket s3://archive/prod --data /var/lib/stratalog --takeover
stratalog restore --bucket s3://archive/prod --data /tmp/drill
"""


@command("restore", EXAMPLES)
@bucket_options
@click.option("--data", required=True, metavar="DIR", help="The new data directory: log.dirs. Must be empty.")
@click.option(
    "--takeover",
    is_flag=True,
    help="Be the cluster that writes to the bucket from now on; the old one is fenced for good.",
)
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@click.option("--cluster", "cluster_id", metavar="ID", help="Which cluster, if several use the bucket.")
@click.option("--node-id", type=click.IntRange(0), default=1, show_default=True, help="node.id of the restored broker.")
@click.option("--threads", type=click.IntRange(1, 64), default=16, show_default=True, help="Requests side by side.")
@json_option
@reports_errors
def restore(
    *,
    bucket: str,
    endpoint_url: str | None,
    region: str | None,
    data: str,
    takeover: bool,
    topics: Sequence[str],
    cluster_id: str | None,
    node_id: int,
    threads: int,
    as_json: bool,
) -> None:
    """Write the data directory of a broker that has lost everything but its bucket.

    Topics with their ids and settings come back, logs go on at the end of their archives with the same offsets, leader
    epochs and producers, group offsets as they were copied last. Nothing of the archive is downloaded. What was never
    archived is lost: topics without remote.storage.enable, and what had not been uploaded yet. Manifests that are missing
    or damaged are rebuilt.

    Without --takeover the bucket is only read: the restored broker serves it, and keeps new records to itself. With
    --takeover it goes on where the old cluster was, which can never write there again.
    """
    from stratalog.broker.restore import Restorer, check_target  # noqa: PLC0415 - the command line starts without it
    from stratalog.tier.restore_plan import read_bucket_state, read_snapshot  # noqa: PLC0415

    check_target(data)
    store = open_bucket(bucket, endpoint_url, region)
    now_ms = SystemClock().wall_ms()
    progress = Progress("read")
    state = read_bucket_state(
        store,
        cluster_id=cluster_id,
        topics=topics,
        threads=threads,
        now_ms=now_ms,
        on_partition=lambda: progress.add(0),
    )
    if not state.cluster_id:
        state = replace(state, cluster_id=cluster_id or _new_cluster_id())
    incarnation = -1
    if takeover:
        incarnation = state.incarnation + 1
        state = _take_over(store, state, incarnation, node_id, now_ms, threads)
    elif any(one.repair is not None for one in state.partitions):
        note(
            "Some manifests are missing or damaged: what they name cannot be read before `tier repair --apply` or a takeover."
        )
    restorer = Restorer(
        state,
        data,
        node_id=node_id,
        incarnation=incarnation,
        now_ms=now_ms,
        snapshot_of=lambda one: read_snapshot(store, one.manifest),
    )
    _tell(restorer.run(), state, data, bucket, node_id, takeover=takeover, as_json=as_json)


def _new_cluster_id() -> str:
    from stratalog.wire.topic import uuid_text  # noqa: PLC0415

    while (text := uuid_text(os.urandom(16))).startswith("-"):
        pass
    return text


def _take_over(
    store: ObjectStore, state: BucketState, incarnation: int, node_id: int, now_ms: int, threads: int
) -> BucketState:
    """Raise every manifest, and say so in the cluster's document."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    from stratalog.tier.probe import probe  # noqa: PLC0415
    from stratalog.tier.projection import cluster_projection, write_projection  # noqa: PLC0415
    from stratalog.tier.restore_plan import PartitionState  # noqa: PLC0415
    from stratalog.tier.takeover import take_partition_over  # noqa: PLC0415

    probe(store).require(multi_writer=True)
    uuid = os.urandom(16)

    def one(partition: PartitionState) -> PartitionState:
        return take_partition_over(
            store,
            partition,
            incarnation=incarnation,
            uuid=uuid,
            broker_id=node_id,
            cluster_id=state.cluster_id,
            now_ms=now_ms,
        )

    with ThreadPoolExecutor(threads, "takeover") as pool:
        partitions = tuple(pool.map(one, state.partitions))
    write_projection(store, cluster_projection(state.cluster_id, incarnation))
    return replace(state, partitions=partitions)


def _tell(
    report: RestoreReport, state: BucketState, data: str, bucket: str, node_id: int, *, takeover: bool, as_json: bool
) -> None:
    """What there is now, what is not as it was, and what to type next."""
    for problem in report.problems:
        note(f"Note: {problem.rstrip('.')}.")
    for one in report.clamped:
        where = "is left out: its partition was not restored" if one.restored < 0 else f"becomes {one.restored}"
        note(f"Note: group {one.group}, {one.topic}-{one.partition}: the committed offset {one.committed} {where}.")
    if as_json:
        write_json(
            {
                "cluster_id": state.cluster_id,
                "takeover": takeover,
                "topics": report.topics,
                "partitions": report.partitions,
                "remote_bytes": report.remote_bytes,
                "groups": report.groups,
                "clamped": [one._asdict() for one in report.clamped],
                "problems": report.problems,
            }
        )
    note(
        f"Restored {report.topics} topics, {report.partitions} partitions, {bytes_text(report.remote_bytes)} in the "
        f"bucket, {report.groups} groups. Start: stratalog serve --data {data} --bucket {bucket} --set node.id={node_id}"
    )
