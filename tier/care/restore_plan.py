"""Everything that a broker needs to begin again from a bucket: topics, where each partition's log goes on, groups.

Everything is read, nothing is written. Manifests that are missing or damaged are rebuilt in memory as `tier repair`
would rebuild them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final, NamedTuple

from msgspec import Struct, field

from stratalog.tier.bucket.catalogue import ArchivedTopic, read_catalogue
from stratalog.tier.bucket.walk import PartitionFolder, TopicFolder, iter_clusters
from stratalog.tier.care.repair import repaired_manifest
from stratalog.tier.care.repair_plan import RepairPlan, plan_repair
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.documents.keys import PartitionId, topic_prefix
from stratalog.tier.manifests.entries import read_page
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.messages.group_copy import GroupCopy
from stratalog.tier.objects.segment_blobs import aborted_from_bytes
from stratalog.tier.objects.segment_reader import read_blob, read_object_footer
from stratalog.tier.stores.store import ObjectStore
from stratalog.tier.work.group_copies import read_group_copies
from stratalog.wire.errors import Corrupt, Invalid, Unknown

__all__ = [
    "ArchivedProducers",
    "BucketState",
    "PartitionState",
    "choose_cluster",
    "read_bucket_state",
    "read_partition_state",
    "read_producers",
]

_READS: Final = 2
_UNTRUSTED: Final = 1 << 62
"""Later than any clock: for a restore nothing is under way any more."""


class PartitionState(Struct, frozen=True):
    """One partition. ``manifest`` has number 0 if nothing was ever archived; ``repair`` is how it was rebuilt, if so."""

    partition: PartitionId
    manifest: Manifest
    repair: RepairPlan | None = None

    @property
    def restart_offset(self) -> int:
        """Where its log goes on."""
        return max(self.manifest.remote_end, self.manifest.log_start_offset)

    @property
    def leader_epoch(self) -> int:
        """The highest leader epoch that anything of the archive speaks of; -1 if nothing does."""
        manifest = self.manifest
        epochs = [manifest.claimant.leader_epoch, *(epoch for epoch, _ in manifest.leader_epochs[-1:])]
        return max(epochs if self.repair is None else [*epochs, self.repair.shown.leader_epoch])


class BucketState(Struct, frozen=True):
    """A cluster as its bucket remembers it. ``incarnation`` is the highest that was seen, -1 if none was."""

    cluster_id: str
    incarnation: int
    topics: tuple[ArchivedTopic, ...] = ()
    partitions: tuple[PartitionState, ...] = ()
    groups: tuple[GroupCopy, ...] = ()
    problems: tuple[str, ...] = field(default=())


class ArchivedProducers(NamedTuple):
    """The producers at the end of an archive: their snapshot, None if there is none, and the transactions that were aborted.

    ``aborted`` has ``(producer id, first offset)`` of those that overlap the last object, wherever their markers stood.
    """

    snapshot: bytes | None = None
    aborted: frozenset[tuple[int, int]] = frozenset()


def choose_cluster(store: ObjectStore, wanted: str | None) -> tuple[str, int]:
    """The cluster to restore and its incarnation; an empty id if the bucket names none.

    Raises `Invalid` if there are several and none is ``wanted``, or not that one.
    """
    clusters = {one.cluster_id: one.incarnation for one in iter_clusters(store)}
    if wanted is not None:
        if clusters and wanted not in clusters:
            raise Invalid(f"{store.url} holds nothing of the cluster {wanted}; it has {', '.join(sorted(clusters))}")
        return wanted, clusters.get(wanted, -1)
    if len(clusters) > 1:
        raise Invalid(f"{store.url} is used by the clusters {', '.join(sorted(clusters))}: say which with --cluster")
    return next(iter(clusters.items()), ("", -1))


def read_bucket_state(
    store: ObjectStore,
    *,
    cluster_id: str | None = None,
    topics: Collection[str] = (),
    may_lack: bool = False,
    threads: int = 16,
    now_ms: int,
    on_partition: Callable[[], object] = lambda: None,
) -> BucketState:
    """Read all of it. Raises `Unknown` for topics that are not there, `Invalid` as `choose_cluster`, `NewerManifest`, and what the store raises.

    With ``may_lack`` some of ``topics`` may be gone: a cut may hold them.
    """
    chosen, incarnation = choose_cluster(store, cluster_id)
    catalogue = read_catalogue(store)
    problems = list(catalogue.problems)
    wanted = [one for one in catalogue.topics if not topics or one.name in topics]
    if (missing := sorted(set(topics) - {one.name for one in wanted})) and not may_lack:
        raise Unknown(f"topic {missing[0]} is not in the bucket {store.url}")
    if not wanted and not chosen:
        raise Unknown(f"no broker has written to the bucket {store.url}: check the URL and its prefix")
    if chosen:
        problems += [
            f"topic {one.name} belongs to the cluster {one.cluster_id}: it is left out"
            for one in wanted
            if one.cluster_id not in {"", chosen}
        ]
        wanted = [one for one in wanted if one.cluster_id in {"", chosen}]
    partitions: list[PartitionState] = []
    with ThreadPoolExecutor(threads, "restore") as pool, ThreadPoolExecutor(threads, "restore-read") as readers:
        names = [topic.partition(number) for topic in wanted for number in range(topic.partition_count)]
        for state in pool.map(lambda one: read_partition_state(store, one, readers, incarnation, now_ms), names):
            partitions.append(state)
            if state.repair is not None:
                problems.append(_words(state.repair))
            on_partition()
    seen = [state.repair.claim_seen for state in partitions if state.repair and state.repair.claim_seen]
    named = {topic.cluster_id for topic in wanted} | {state.manifest.cluster_id for state in partitions}
    cluster_ids = named - {""}
    if not chosen and len(cluster_ids) == 1:
        chosen = cluster_ids.pop()
    return BucketState(
        cluster_id=chosen,
        incarnation=max(
            incarnation, *(one.incarnation for one in (*(state.manifest.claimant for state in partitions), *seen)), -1
        ),
        topics=tuple(wanted),
        partitions=tuple(partitions),
        groups=read_group_copies(store, chosen, problems.append) if chosen else (),
        problems=tuple(problems),
    )


def read_partition_state(
    store: ObjectStore, partition: PartitionId, readers: Executor, incarnation: int, now_ms: int
) -> PartitionState:
    """One partition's manifest, or the one that a repair would write. Raises `NewerManifest` and what the store raises."""
    for _ in range(_READS):
        try:
            stored = read_manifest(store, partition)
        except Corrupt:
            continue  # on its way, or for good: then it is planned anew from what is left
        if stored.version:
            return PartitionState(partition, stored.manifest)
        break
    topic = TopicFolder(partition.topic, partition.topic_id, topic_prefix(partition.topic, partition.topic_id))
    folder = PartitionFolder(topic, partition.partition)
    options = VerifyOptions(now_ms=_UNTRUSTED, grace_ms=0)
    plan = plan_repair(store, folder, partition.topic, options, readers=readers, incarnation=max(incarnation, 0))
    if plan is None:
        return PartitionState(partition, read_manifest(store, partition).manifest)
    return PartitionState(partition, repaired_manifest(plan, uuid=bytes(16), now_ms=now_ms), plan)


def _words(plan: RepairPlan) -> str:
    entries = plan.chain.entries
    span = f"offsets [{entries[0].base}, {entries[-1].end})" if entries else "nothing"
    lost = "".join(f"; offsets [{start}, {end}) are lost" for start, end in plan.lost)
    return f"{plan.partition}: its manifest was rebuilt from {plan.source}: {span}{lost}"


def read_producers(store: ObjectStore, manifest: Manifest) -> ArchivedProducers:
    """The producers as of the archive's end; none if there is no live object.

    Raises `Corrupt` and `NotFound` if the last object, or the page that names it, cannot be read.
    """
    last: Entry | None = manifest.entries[-1] if manifest.entries else None
    if last is None and manifest.pages:
        last = read_page(store, manifest, manifest.pages[-1])[-1]
    if last is None:
        return ArchivedProducers()
    footer = read_object_footer(store, last.key)
    snapshot = read_blob(store, last.key, footer, "producer_snapshot") or None
    if not last.aborted_count:
        return ArchivedProducers(snapshot)
    aborted = aborted_from_bytes(read_blob(store, last.key, footer, "aborted"))
    return ArchivedProducers(snapshot, frozenset((one.producer_id, one.first_offset) for one in aborted))
