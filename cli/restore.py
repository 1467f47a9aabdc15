"""``stratalog restore``: a broker's data directory from its bucket alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from stratalog.broker.runtime.clock import SystemClock
from stratalog.cli.bucket import Progress, bucket_options, open_bucket
from stratalog.cli.command import command
from stratalog.cli.output import bytes_text, json_option, note, reports_errors, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stratalog.broker.restore.restorer import RestoreReport
    from stratalog.tier.care.restore_plan import BucketState
    from stratalog.tier.care.rewind import CutTarget
    from stratalog.tier.documents.keys import PartitionId
    from stratalog.tier.manifests.parts import Claimant
    from stratalog.tier.stores.store import ObjectStore

__all__ = ["note_differences", "restore"]

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
@click.option("--cut", "cut_name", metavar="NAME", help="Go back to this cut; with --takeover only.")
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
    cut_name: str | None,
    cluster_id: str | None,
    node_id: int,
    threads: int,
    as_json: bool,
) -> None:
    """Write the data directory of a broker that has lost everything but its bucket.

    Topics with their ids and settings come back, logs go on at the end of their archives with the same offsets, leader
    epochs and producers, group offsets as they were copied last. The archive itself is not downloaded. Records that
    were never archived are lost: topics without remote.storage.enable, and records that had not been uploaded yet.
    Manifests that are missing or damaged are rebuilt.

    Without --takeover the bucket is only read: the restored broker serves it, and keeps new records to itself. With
    --takeover it goes on where the old cluster was, which can never write there again. With --cut it goes on from a cut:
    what was archived later goes to the trash of the bucket. (To read a cut, no restore is needed: any broker, and
    `stratalog mount`, serve it under the name TOPIC@CUT.)
    """
    from stratalog.broker.restore.restorer import Restorer, check_target
    from stratalog.tier.care.restore_plan import read_bucket_state, read_snapshot

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
    incarnation = state.incarnation + 1 if takeover else -1
    state = _claim(store, state, cut_name, incarnation, node_id, now_ms, threads)
    restorer = Restorer(
        state,
        data,
        node_id=node_id,
        incarnation=incarnation,
        now_ms=now_ms,
        snapshot_of=lambda one: read_snapshot(store, one.manifest),
    )
    _tell(restorer.run(), state, data, bucket, node_id, takeover=takeover, as_json=as_json)


def _claim(
    store: ObjectStore,
    state: BucketState,
    cut_name: str | None,
    incarnation: int,
    node_id: int,
    now_ms: int,
    threads: int,
) -> BucketState:
    """The bucket's state to restore: as it was read, or as it is after the
    takeover, which is at the cut if one is named.
    """
    from stratalog.tier.manifests.parts import Claimant

    targets: Mapping[PartitionId, CutTarget] = {}
    if cut_name is not None:
        state, targets = _at_cut(store, state, cut_name, takeover=incarnation >= 0)
    if incarnation >= 0:
        return _take_over(store, state, targets, Claimant(incarnation, -1, os.urandom(16), node_id), now_ms, threads)
    if any(one.repair is not None for one in state.partitions):
        note(
            "Some manifests are missing or damaged: what they name cannot be read before `tier repair --apply` or a takeover."
        )
    return state


def _new_cluster_id() -> str:
    from stratalog.wire.topic import uuid_text

    while (text := uuid_text(os.urandom(16))).startswith("-"):
        pass
    return text


def _at_cut(
    store: ObjectStore, state: BucketState, name: str, *, takeover: bool
) -> tuple[BucketState, dict[PartitionId, CutTarget]]:
    """The topics of a cut in the place of those that there are now, and where each partition goes back to."""
    from stratalog.tier.bucket.catalogue import ArchivedTopic
    from stratalog.tier.care.restore_plan import PartitionState
    from stratalog.tier.care.rewind import read_cut_target
    from stratalog.tier.manifests.manifest import Manifest
    from stratalog.tier.stores.store import NotFound
    from stratalog.tier.work.cut_commands import read_cut
    from stratalog.tier.work.cut_groups import read_cut_groups
    from stratalog.wire.errors import Corrupt, Invalid

    if not takeover:
        raise Invalid(f"going back to a cut changes the bucket: add --takeover, or read it as TOPIC@{name}")
    cut = read_cut(store, name)
    targets = {member.partition: read_cut_target(store, cut, member) for member in cut.partitions}
    topics = tuple(
        ArchivedTopic(one.name, one.topic_id, one.partition_count, one.configs, cut.cluster_id) for one in cut.topics
    )
    left = sorted({one.name for one in state.topics} - {one.name for one in topics})
    problems = [*state.problems, *(f"topic {one} is not in the cut: it is left as it is" for one in left)]
    problems += [
        f"{one.partition}: the cut ends at offset {one.cut_end}, inside an object: the log goes on at {one.end}"
        for one in targets.values()
        if one.end != one.cut_end
    ]
    try:
        groups = read_cut_groups(store, cut)
    except (Corrupt, NotFound) as error:
        groups = state.groups
        problems.append(f"what groups had committed when the cut was made is lost, later offsets are taken: {error}")
    live = {one.partition: one for one in state.partitions}
    partitions = tuple(live.get(one, PartitionState(one, Manifest(one))) for one in targets)
    return replace(state, topics=topics, partitions=partitions, groups=groups, problems=tuple(problems)), targets


def _take_over(
    store: ObjectStore,
    state: BucketState,
    targets: Mapping[PartitionId, CutTarget],
    claimant: Claimant,
    now_ms: int,
    threads: int,
) -> BucketState:
    """Raise every manifest, take it back to the cut if there is one, and say so in the cluster's document."""
    from concurrent.futures import ThreadPoolExecutor

    from stratalog.tier.care.restore_plan import PartitionState
    from stratalog.tier.care.rewind import rewind_partition
    from stratalog.tier.care.takeover import take_partition_over
    from stratalog.tier.messages.projection import cluster_projection, write_projection
    from stratalog.tier.stores.probe import probe

    probe(store).require(multi_writer=True)
    cluster_id = state.cluster_id

    def one(partition: PartitionState) -> PartitionState:
        target = targets.get(partition.partition)
        if target is None or partition.repair is not None:
            partition = take_partition_over(store, partition, claimant, cluster_id=cluster_id, now_ms=now_ms)
        if target is None:
            return partition
        return replace(
            partition, manifest=rewind_partition(store, target, claimant, cluster_id=cluster_id, now_ms=now_ms)
        )

    with ThreadPoolExecutor(threads, "takeover") as pool:
        partitions = tuple(pool.map(one, state.partitions))
    write_projection(store, cluster_projection(cluster_id, claimant.incarnation))
    return replace(state, partitions=partitions)


def note_differences(report: RestoreReport) -> None:
    """Say what is not as it was."""
    for problem in report.problems:
        note(f"Note: {problem.rstrip('.')}.")
    for one in report.clamped:
        where = "is left out: its partition was not restored" if one.restored < 0 else f"becomes {one.restored}"
        note(f"Note: group {one.group}, {one.topic}-{one.partition}: the committed offset {one.committed} {where}.")


def _tell(
    report: RestoreReport, state: BucketState, data: str, bucket: str, node_id: int, *, takeover: bool, as_json: bool
) -> None:
    """Print what there is now, what differs from before, and what to type next."""
    note_differences(report)
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
