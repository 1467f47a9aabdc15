"""``stratalog restore``: a broker's data directory from its bucket alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click
from msgspec.structs import replace

from stratalog.broker.runtime.clock import SystemClock
from stratalog.cli.bucket import Progress, bucket_options, open_bucket
from stratalog.cli.command import command
from stratalog.cli.output import bytes_text, json_option, note, reports_errors, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stratalog.broker.restore.restorer import ControllerListener, RestoreReport
    from stratalog.broker.settings.config import BrokerConfig
    from stratalog.tier.bucket.catalogue import ArchivedTopic
    from stratalog.tier.bucket.cuts import Cut, CutPartition
    from stratalog.tier.care.restore_plan import BucketState, PartitionState
    from stratalog.tier.care.rewind import CutTarget
    from stratalog.tier.documents.keys import PartitionId
    from stratalog.tier.manifests.parts import Claimant
    from stratalog.tier.stores.store import ObjectStore

__all__ = ["note_differences", "restore"]

EXAMPLES: Final = """
stratalog restore --bucket s3://archive/prod --data /var/lib/stratalog --takeover
stratalog restore --bucket s3://archive/prod --data /tmp/drill
stratalog restore --bucket s3://archive/prod --config server.properties --takeover
"""


class _Target(NamedTuple):
    """The node that is restored. Other nodes can join it if ``controller`` says where."""

    data: str
    node_id: int
    start: str
    """The options with which it is started."""
    config: BrokerConfig | None = None
    controller: ControllerListener | None = None


class _WayBack(NamedTuple):
    """A cut to go back to: where each of its partitions goes, and those that its topics have got since."""

    targets: Mapping[PartitionId, CutTarget] = {}
    added: Sequence[PartitionState] = ()


@command("restore", EXAMPLES)
@bucket_options
@click.option("--data", metavar="DIR", help="The new data directory: log.dirs. Must be empty.")
@click.option(
    "-c",
    "--config",
    "path",
    metavar="FILE",
    help="The settings of the node, in the place of --data and --node-id. With a controller's listener in them, other nodes "
    "can join it.",
)
@click.option(
    "--takeover",
    is_flag=True,
    help="Be the cluster that writes to the bucket from now on; the old one is fenced for good.",
)
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@click.option("--cut", "cut_name", metavar="NAME", help="Go back to this cut; with --takeover only.")
@click.option("--cluster", "cluster_id", metavar="ID", help="Which cluster, if several use the bucket.")
@click.option("--node-id", type=click.IntRange(0), help="node.id of the restored broker.  [default: 1]")
@click.option("--threads", type=click.IntRange(1, 64), default=16, show_default=True, help="Requests side by side.")
@json_option
@reports_errors
def restore(
    *,
    bucket: str,
    endpoint_url: str | None,
    region: str | None,
    data: str | None,
    path: str | None,
    takeover: bool,
    topics: Sequence[str],
    cut_name: str | None,
    cluster_id: str | None,
    node_id: int | None,
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

    With --config the node can become a cluster again: it is the first voter of its quorum, and other brokers and controllers
    join it as they join a node that was formatted with --standalone. Each partition has one replica until more are assigned.
    """
    from stratalog.broker.restore.restorer import Restorer
    from stratalog.tier.care.restore_plan import read_producers
    from stratalog.tier.work.group_copies import leave_offsets

    target = _target(data, path, node_id)
    store = open_bucket(bucket, endpoint_url, region)
    now_ms = SystemClock().wall_ms()
    state = _read(store, cluster_id, topics, threads, now_ms, may_lack=cut_name is not None)
    copies, back = state.groups, _WayBack()
    if cut_name is not None:
        state, back = _at_cut(store, state, cut_name, topics, now_ms, threads, takeover=takeover)
    incarnation = state.incarnation + 1 if takeover else -1
    state = _claim(store, state, back, incarnation, target.node_id, now_ms, threads)
    if takeover:
        restored = {one.topic_id for one in state.topics} if topics or cut_name is not None else None
        leave_offsets(store, state.cluster_id, copies, restored, incarnation)
    restorer = Restorer(
        state,
        target.data,
        node_id=target.node_id,
        incarnation=incarnation,
        now_ms=now_ms,
        producers_of=lambda one: read_producers(store, one.manifest),
        controller=target.controller,
    )
    report = restorer.run()
    _format_others(target, state.cluster_id, now_ms)
    _tell(report, state, f"{target.start} --bucket {bucket}", takeover=takeover, as_json=as_json)


def _read(
    store: ObjectStore, cluster_id: str | None, topics: Sequence[str], threads: int, now_ms: int, *, may_lack: bool
) -> BucketState:
    """All that the bucket says; a new cluster id if it has none. With ``may_lack`` topics that are gone are no error."""
    from stratalog.tier.care.restore_plan import read_bucket_state

    progress = Progress("read")
    state = read_bucket_state(
        store,
        cluster_id=cluster_id,
        topics=topics,
        may_lack=may_lack,
        threads=threads,
        now_ms=now_ms,
        on_partition=lambda: progress.add(0),
    )
    return state if state.cluster_id else replace(state, cluster_id=cluster_id or _new_cluster_id())


def _target(data: str | None, path: str | None, node_id: int | None) -> _Target:
    """The node that the options name. Raises `Invalid` for one that cannot be restored, before anything is claimed."""
    from stratalog.broker.restore.restorer import ControllerListener, check_target
    from stratalog.broker.settings.config import load_config
    from stratalog.wire.errors import Invalid

    if (data is None) == (path is None) or (path is not None and node_id is not None):
        raise click.UsageError("give --data, with --node-id if it is not 1, or --config in the place of both")
    if data is not None:
        check_target(data)
        node_id = 1 if node_id is None else node_id
        return _Target(data, node_id, f"--data {data} --set node.id={node_id}")
    config = load_config(path=path, environment=os.environ)
    roles = config.roles
    if not (roles.is_broker and roles.is_controller):
        raise Invalid(f"{path}: a node is restored as process.roles=broker,controller; others join it afterwards")
    if roles.quorum.voters:
        raise Invalid(
            f"{path}: the restored node is the only voter at first: put controller.quorum.bootstrap.servers in the place of "
            "controller.quorum.voters"
        )
    if config.metadata_log_dir not in config.log_dirs:
        raise Invalid(
            f"{path}: all is restored into one directory: leave metadata.log.dir out, or name one of log.dirs"
        )
    if config.controller_address is not None and not roles.quorum.bootstrap_servers:
        raise Invalid(f"{path}: the node has a controller's listener: name it in controller.quorum.bootstrap.servers")
    check_target(config.metadata_log_dir, *config.log_dirs)
    address = config.controller_address
    listener = None if address is None else ControllerListener(roles.controller_listeners[0], *address)
    return _Target(config.metadata_log_dir, config.node_id, f"--config {path}", config, listener)


def _format_others(target: _Target, cluster_id: str, now_ms: int) -> None:
    """Make the node's other directories its own: everything was restored into that of the metadata."""
    if target.config is None or set(target.config.log_dirs) <= {target.data}:
        return
    from stratalog.broker.replicas.directory_format import format_node, identity_of
    from stratalog.hot.storage.filesystem import RealFilesystem
    from stratalog.metadata.formatting.node_format import FormatOptions

    options = FormatOptions(cluster_id=cluster_id, no_initial_controllers=True, ignore_formatted=True)
    format_node(identity_of(target.config), options, files=RealFilesystem(), now_ms=now_ms)


def _claim(
    store: ObjectStore, state: BucketState, back: _WayBack, incarnation: int, node_id: int, now_ms: int, threads: int
) -> BucketState:
    """The bucket's state to restore: as it was read, or as it is after the takeover, which goes ``back`` to a cut."""
    from stratalog.tier.manifests.parts import Claimant

    if incarnation >= 0:
        return _take_over(store, state, back, Claimant(incarnation, -1, os.urandom(16), node_id), now_ms, threads)
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
    store: ObjectStore,
    state: BucketState,
    name: str,
    names: Sequence[str],
    now_ms: int,
    threads: int,
    *,
    takeover: bool,
) -> tuple[BucketState, _WayBack]:
    """The topics of a cut in the place of those that there are now, and where each partition goes back to.

    With ``names`` these topics alone. Raises `Unknown` for one that the cut does not hold, `Invalid` for another cluster's.
    """
    from stratalog.tier.bucket.catalogue import ArchivedTopic
    from stratalog.tier.stores.store import NotFound
    from stratalog.tier.work.cut_commands import read_cut
    from stratalog.tier.work.cut_groups import read_cut_groups
    from stratalog.wire.errors import Corrupt, Invalid

    if not takeover:
        raise Invalid(f"going back to a cut changes the bucket: add --takeover, or read it as TOPIC@{name}")
    cut = read_cut(store, name)
    _check_cut(cut, name, state.cluster_id, names)
    topics = tuple(
        ArchivedTopic(one.name, one.topic_id, one.partition_count, one.configs, cut.cluster_id)
        for one in cut.topics
        if not names or one.name in names
    )
    wanted = {one.topic_id for one in topics}
    members = [one for one in cut.partitions if one.partition.topic_id in wanted]
    targets = _targets(store, cut, members, threads)
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
    partitions = _standing(store, state, targets, now_ms, threads)
    added = _standing(store, state, _added(store, topics), now_ms, threads)
    problems += [f"{one.partition}: it was added after the cut: its archive goes to the trash" for one in added]
    state = replace(
        state,
        incarnation=max(state.incarnation, *(one.manifest.claimant.incarnation for one in (*partitions, *added)), -1),
        topics=topics,
        partitions=partitions,
        groups=groups,
        problems=tuple(problems),
    )
    return state, _WayBack(targets, added)


def _check_cut(cut: Cut, name: str, cluster_id: str, names: Sequence[str]) -> None:
    """Raise `Unknown` for a topic of ``names`` that the cut ``name`` does not hold, `Invalid` for another cluster's cut."""
    from stratalog.tier.work.cut_commands import NO_CLUSTER
    from stratalog.wire.errors import Invalid, Unknown

    if cut.cluster_id not in {NO_CLUSTER, cluster_id}:
        raise Invalid(
            f"the cut {cut.cut_id} is of the cluster {cut.cluster_id}, not of {cluster_id}: name one of its own by its "
            "whole id (stratalog cut list), or the other cluster with --cluster"
        )
    if missing := sorted(set(names) - {one.name for one in cut.topics}):
        raise Unknown(f"the cut {name} does not hold topic {missing[0]}")


def _targets(
    store: ObjectStore, cut: Cut, members: Sequence[CutPartition], threads: int
) -> dict[PartitionId, CutTarget]:
    """Where each partition of the cut goes back to."""
    from concurrent.futures import ThreadPoolExecutor

    from stratalog.tier.care.rewind import read_cut_target

    with ThreadPoolExecutor(threads, "restore-cut") as pool:
        found = list(pool.map(lambda member: read_cut_target(store, cut, member), members))
    return {one.partition: one for one in found}


def _standing(
    store: ObjectStore, state: BucketState, names: Iterable[PartitionId], now_ms: int, threads: int
) -> tuple[PartitionState, ...]:
    """The partitions as they stand now; those of topics that were deleted, or made again, since the cut are read."""
    from concurrent.futures import ThreadPoolExecutor

    from stratalog.tier.care.restore_plan import read_partition_state

    live = {one.partition: one for one in state.partitions}
    with ThreadPoolExecutor(threads, "restore") as pool, ThreadPoolExecutor(threads, "restore-read") as readers:

        def read(name: PartitionId) -> PartitionState:
            return live.get(name) or read_partition_state(store, name, readers, state.incarnation, now_ms)

        return tuple(pool.map(read, names))


def _added(store: ObjectStore, topics: Sequence[ArchivedTopic]) -> Iterator[PartitionId]:
    """The partitions in the bucket that these topics do not have: they were added after the cut."""
    from stratalog.tier.bucket.walk import TopicFolder, iter_partitions
    from stratalog.tier.documents.keys import topic_prefix

    for topic in topics:
        folder = TopicFolder(topic.name, topic.topic_id, topic_prefix(topic.name, topic.topic_id))
        numbers = [one.partition for one in iter_partitions(store, folder)]
        yield from (topic.partition(number) for number in numbers if number >= topic.partition_count)


def _take_over(
    store: ObjectStore, state: BucketState, back: _WayBack, claimant: Claimant, now_ms: int, threads: int
) -> BucketState:
    """Raise every manifest, take it back to the cut if there is one, and say so in the cluster's document.

    Partitions that the cut does not have lose their archives: a partition that is added again must not find one.

    All are looked at before one is changed: what cannot go back to the cut has to be said while nothing has.
    """
    from concurrent.futures import ThreadPoolExecutor

    from stratalog.tier.care.rewind import check_rewind, empty_added, rewind_partition
    from stratalog.tier.care.takeover import take_partition_over
    from stratalog.tier.messages.projection import cluster_projection, write_projection
    from stratalog.tier.stores.probe import probe

    probe(store).require(multi_writer=True)
    cluster_id = state.cluster_id

    def check(partition: PartitionState) -> None:
        if (target := back.targets.get(partition.partition)) is not None:
            check_rewind(store, partition.manifest, target, now_ms=now_ms)

    def one(partition: PartitionState) -> PartitionState:
        target = back.targets.get(partition.partition)
        if target is None or partition.repair is not None:
            partition = take_partition_over(store, partition, claimant, cluster_id=cluster_id, now_ms=now_ms)
        if target is None:
            return partition
        return replace(
            partition, manifest=rewind_partition(store, target, claimant, cluster_id=cluster_id, now_ms=now_ms)
        )

    def empty(partition: PartitionState) -> None:
        empty_added(store, partition, claimant, cluster_id=cluster_id, now_ms=now_ms)

    with ThreadPoolExecutor(threads, "takeover") as pool:
        list(pool.map(check, state.partitions))
        partitions = tuple(pool.map(one, state.partitions))
        list(pool.map(empty, back.added))
    write_projection(store, cluster_projection(cluster_id, claimant.incarnation))
    return replace(state, partitions=partitions)


def note_differences(report: RestoreReport) -> None:
    """Say what is not as it was."""
    for problem in report.problems:
        note(f"Note: {problem.rstrip('.')}.")
    for one in report.clamped:
        where = "is left out: its partition was not restored" if one.restored < 0 else f"becomes {one.restored}"
        note(f"Note: group {one.group}, {one.topic}-{one.partition}: the committed offset {one.committed} {where}.")


def _tell(report: RestoreReport, state: BucketState, start: str, *, takeover: bool, as_json: bool) -> None:
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
        f"bucket, {report.groups} groups. Start: stratalog serve {start}"
    )
