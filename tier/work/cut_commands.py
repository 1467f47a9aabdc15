"""Cuts in the bucket: made, found, read and taken away again.

In this order, so that whatever is left half-way is recognised by its document and can be deleted: the document in state
``creating``, then what groups have committed, then for each partition the pin in its manifest (rule 9) and a copy of
that manifest, then the document as ``complete``. Deletion goes the other way: the document as ``deleting``, the pins, the copies, the document.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple, TypeVar

from crc32c import crc32c
from msgspec.structs import replace

from stratalog.tier.bucket.catalogue import ArchivedTopic, read_catalogue
from stratalog.tier.bucket.cuts import (
    Cut,
    CutPartition,
    CutState,
    CutTopic,
    check_cut_name,
    cut_from_bytes,
    cut_to_bytes,
)
from stratalog.tier.documents.keys import CLUSTERS_PREFIX, PartitionId, cut_id_of, cuts_prefix, is_cut_key
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest, writer_version
from stratalog.tier.manifests.parts import Pin
from stratalog.tier.manifests.pins import pin, unpin
from stratalog.tier.messages.commands import CutRead, ReadCut
from stratalog.tier.reading.time_lookup import offset_at
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import AlreadyExists, NotFound, ObjectStore, PreconditionFailed
from stratalog.tier.work.cut_groups import keep_groups
from stratalog.wire.errors import Corrupt, Invalid, Retriable, Unknown

__all__ = [
    "NO_CLUSTER",
    "CutUnknown",
    "FoundCut",
    "create_cut",
    "cut_manifest",
    "dangling_pins",
    "delete_cut",
    "drop_pins",
    "end_at",
    "find_cuts",
    "read_cut",
    "read_cut_of",
]

_THREADS: Final = 16
NO_CLUSTER: Final = "imported"
"""Where the cuts of topics lie that no cluster has written, but an import."""

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


class CutUnknown(NotFound):
    """There is no such cut."""


class FoundCut(NamedTuple):
    """A cut, or the reason why its document cannot be read."""

    key: str
    cut: Cut | None
    problem: str = ""


# -- finding ------------------------------------------------------------------------------------------------------


def find_cuts(store: ObjectStore, name: str = "") -> Iterator[FoundCut]:
    """The cuts of the bucket, of each cluster from the oldest on, those left half-way too; of a ``name`` if given."""
    for cluster_id in _clusters(store):
        for info in store.list(cuts_prefix(cluster_id)):
            if not is_cut_key(info.key) or (name and name not in _names(info.key)):
                continue
            try:
                yield FoundCut(info.key, get_checked(store, info.key, partial(cut_from_bytes, key=info.key))[0])
            except Corrupt as error:
                yield FoundCut(info.key, None, str(error))
            except NotFound:
                continue  # deleted since the listing


def _clusters(store: ObjectStore) -> Iterator[str]:
    """Clusters that have a folder; each is left by a jump behind it."""
    after = ""
    while True:
        info = next(store.list(CLUSTERS_PREFIX, after), None)
        if info is None:
            return
        cluster_id = info.key.removeprefix(CLUSTERS_PREFIX).split("/")[0]
        yield cluster_id
        after = f"{CLUSTERS_PREFIX}{cluster_id}0"  # the character behind the slash


def _names(key: str) -> tuple[str, str]:
    """The two names of a cut: its id and its name."""
    cut_id = cut_id_of(key)
    return cut_id, cut_id.partition("-")[2]


def read_cut(store: ObjectStore, name: str) -> Cut:
    """The cut of this name or whole id (``{created_ms}-{name}``), in any state; of two of a name the older one.

    Raises `CutUnknown`, `Corrupt` if its document cannot be read, and what the store raises.
    """
    for found in find_cuts(store, name):
        if found.cut is None:
            raise Corrupt(found.problem)
        return found.cut
    raise CutUnknown("read", "", store.url, f"there is no cut {name!r}", "See stratalog cut list.")


def read_cut_of(store: ObjectStore, command: ReadCut) -> CutRead:
    """The part of a topic in the complete cut of a name that it belongs to. Raises `CutUnknown` and what the store raises."""
    for found in find_cuts(store, command.key):
        cut = found.cut
        topic = None if cut is None or cut.state is not CutState.COMPLETE else cut.topic(command.topic)
        if cut is not None and topic is not None:
            members = tuple(one for one in cut.partitions if one.partition.topic_id == topic.topic_id)
            return CutRead(replace(cut, topics=(topic,), partitions=members))
    raise CutUnknown("read", "", store.url, f"no complete cut {command.key!r} has a topic {command.topic}")


def cut_manifest(store: ObjectStore, cut: Cut, member: CutPartition) -> Manifest:
    """The manifest of one partition as it was pinned: read from it what lies below ``member.end_offset``.

    Raises `Invalid` unless the cut is complete, `Corrupt` for a damaged copy, and what the store raises.
    """
    if cut.state is not CutState.COMPLETE:
        raise Invalid(f"the cut {cut.name} is {cut.state}: it cannot be read")
    if not member.seq:
        return Manifest(member.partition)
    key = cut.manifest_key(member.partition)

    def pinned(raw: bytes) -> Manifest:
        if hashlib.sha256(raw).hexdigest() != member.sha256:
            raise Corrupt(f"{key} is not the manifest that the cut {cut.name} has pinned: its SHA-256 differs")
        manifest = from_bytes(raw, key)
        if manifest.partition != member.partition:
            raise Corrupt(f"{key} belongs to {manifest.partition}, not to {member.partition}")
        return manifest

    return get_checked(store, key, pinned)[0]


# -- making -------------------------------------------------------------------------------------------------------


def create_cut(
    store: ObjectStore,
    name: str,
    *,
    now_ms: int,
    topics: Sequence[str] = (),
    end_of: Callable[[ObjectStore, Manifest], int] = lambda _, manifest: manifest.remote_end,
    on_problem: Callable[[str], object] = log.warning,
) -> Cut:
    """Make a cut of these topics, of all if none is named; ``end_of`` says where it ends in a partition.

    ``on_problem`` gets each omission: the offsets of a group whose copy cannot be read.
    Raises `Invalid` for a name that cannot be one or is taken, and for topics that are not there or of several
    clusters; `Corrupt` for a manifest that cannot be read, or is missing. `delete_cut` undoes its work till then.
    """
    check_cut_name(name)
    for found in find_cuts(store, name):
        if found.cut is not None:
            raise Invalid(f"there is a cut {name} already, {found.cut.state}: delete it or choose another name")
    chosen = _chosen(store, topics)
    cut = Cut(
        cluster_id=chosen[0].cluster_id or NO_CLUSTER,
        name=name,
        created_ms=now_ms,
        state=CutState.CREATING,
        topics=tuple(CutTopic(each.name, each.topic_id, each.partition_count, each.configs) for each in chosen),
        partitions=tuple(CutPartition(each.partition(n)) for each in chosen for n in range(each.partition_count)),
        writer=writer_version(),
    )
    raw = cut_to_bytes(cut)
    try:
        store.put_if_absent(cut.key, raw, crc32c=crc32c(raw))
    except AlreadyExists as error:
        raise Invalid(f"there is a cut {name} already: choose another name") from error
    creating, cut = cut, keep_groups(store, cut, on_problem)
    pinned = _each(cut.partitions, lambda member: _pin(store, cut, member, end_of))
    return _replace(store, creating, replace(cut, state=CutState.COMPLETE, partitions=tuple(pinned)))


def _chosen(store: ObjectStore, names: Sequence[str]) -> list[ArchivedTopic]:
    catalogue = read_catalogue(store)
    missing = [name for name in names if catalogue.by_name(name) is None]
    if missing:
        raise Unknown(f"topic {missing[0]} is not in the bucket {store.url}")
    chosen = [topic for topic in catalogue.topics if not names or topic.name in names]
    if not chosen:
        raise Invalid(f"there are no topics in the bucket {store.url}")
    clusters = sorted({topic.cluster_id for topic in chosen})
    if len(clusters) > 1:
        raise Invalid(f"the topics are of the clusters {', '.join(clusters)}: name topics of one of them")
    return chosen


def _pin(
    store: ObjectStore, cut: Cut, member: CutPartition, end_of: Callable[[ObjectStore, Manifest], int]
) -> CutPartition:
    """Pin one partition and keep a copy of its manifest."""
    before = read_manifest(store, member.partition).manifest
    if not before.seq:
        before = _not_lost(store, member.partition)
    if not before.seq:
        return member._replace(seq=0)
    end = min(end_of(store, before), before.remote_end)

    def transition(manifest: Manifest) -> Manifest:
        if any(known.cut_id == cut.cut_id for known in manifest.pins):
            return manifest  # ours, whose reply was lost; the manifest may have gone on since
        start = manifest.log_start_offset
        return pin(manifest, Pin(cut.cut_id, cut.created_ms, max(start, end), start), now_ms=cut.created_ms)

    stored = change_manifest(store, member.partition, transition)
    key = cut.manifest_key(member.partition)
    try:
        store.put_if_absent(key, stored.raw, crc32c=crc32c(stored.raw))
    except AlreadyExists:
        held, _ = store.get(key)  # ours, whose reply was lost
        stored = replace(stored, raw=held, manifest=from_bytes(held, key))
    start = stored.manifest.log_start_offset
    return CutPartition(
        member.partition, start, max(start, end), stored.manifest.seq, hashlib.sha256(stored.raw).hexdigest()
    )


def _not_lost(store: ObjectStore, partition: PartitionId) -> Manifest:
    """The manifest of a partition that had none, which is so until it is archived.

    Raises `Corrupt` if its objects are there all the same: the cut would call it empty, and retention take them.
    """
    if next(store.list(partition.segments_prefix), None) is None:
        return Manifest(partition)
    manifest = read_manifest(store, partition).manifest  # a claim comes before the first object
    if not manifest.seq:
        raise Corrupt(
            f"{partition.manifest_key} is missing, and objects of the partition are there: no cut holds them. See what stratalog "
            "tier repair --plan would do, or whether this is the right bucket; then delete this cut and make it again"
        )
    return manifest


def end_at(timestamp_ms: int) -> Callable[[ObjectStore, Manifest], int]:
    """For `create_cut`: where the first record of that time or later stands, or the end of what is archived."""

    def end_of(store: ObjectStore, manifest: Manifest) -> int:
        found = offset_at(store, manifest, timestamp_ms)
        return manifest.remote_end if found is None else found

    return end_of


# -- deleting -----------------------------------------------------------------------------------------------------


def delete_cut(store: ObjectStore, cut: Cut, *, now_ms: int) -> int:
    """Let go of all that a cut holds, in whatever state it is; how many pins were taken away.

    Retention may then remove what nothing else holds. Raises what the store raises: then call it again.
    """
    if cut.state is not CutState.DELETING:
        cut = _replace(store, cut, replace(cut, state=CutState.DELETING))
    unpinned = sum(_each(cut.partitions, lambda member: _unpin(store, cut, member.partition, now_ms)))
    store.delete_many([info.key for info in store.list(cut.key.removesuffix(".json") + "/")])
    store.delete_many([cut.key])
    return unpinned


def dangling_pins(store: ObjectStore) -> dict[str, list[PartitionId]]:
    """Pins of cuts that have no document, by the cut's id; reads every manifest of the bucket.

    An operator removed the document by hand, or deleted a cut while it was being made. Raises what the store raises.
    """
    found: dict[str, list[PartitionId]] = {}
    partitions = [topic.partition(n) for topic in read_catalogue(store).topics for n in range(topic.partition_count)]
    pinned = _each(partitions, lambda one: _pins(store, one))
    known = {
        cut_id_of(found.key) for found in find_cuts(store)
    }  # listed afterwards: a cut's document comes before its pins
    for partition, pins in zip(partitions, pinned, strict=True):
        for each in pins:
            if each.cut_id not in known:
                found.setdefault(each.cut_id, []).append(partition)
    return found


def drop_pins(store: ObjectStore, cut_id: str, partitions: Iterable[PartitionId], *, now_ms: int) -> int:
    """Take the pins of a cut without a document away; how many."""
    dropped = _each(
        partitions, lambda one: change_manifest(store, one, lambda manifest: unpin(manifest, cut_id, now_ms=now_ms))
    )
    return len(dropped)


def _pins(store: ObjectStore, partition: PartitionId) -> tuple[Pin, ...]:
    try:
        return read_manifest(store, partition).manifest.pins
    except Corrupt:
        return ()  # `stratalog tier verify` tells of it


def _unpin(store: ObjectStore, cut: Cut, partition: PartitionId, now_ms: int) -> bool:
    before = read_manifest(store, partition)
    if not any(known.cut_id == cut.cut_id for known in before.manifest.pins):
        return False
    change_manifest(store, partition, lambda manifest: unpin(manifest, cut.cut_id, now_ms=now_ms))
    return True


def _replace(store: ObjectStore, old: Cut, new: Cut) -> Cut:
    """Write the document's next state, unless another writer has changed it."""
    raw, version = store.get(old.key)
    if raw == cut_to_bytes(new):
        return new
    if raw != cut_to_bytes(old):
        raise Retriable(f"the cut {old.name} was changed by another writer: look at it again")
    data = cut_to_bytes(new)
    try:
        store.compare_and_swap(old.key, data, version, crc32c=crc32c(data))
    except PreconditionFailed as error:
        raise Retriable(f"the cut {old.name} was changed by another writer: look at it again") from error
    return new


def _each(members: Iterable[T], work: Callable[[T], R]) -> list[R]:
    """``work`` for each, many at a time; the first error is raised when all have come to their end."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-cut") as pool:
        running = [pool.submit(work, member) for member in members]
    errors = [one.exception() for one in running]
    first = next((error for error in errors if error is not None), None)
    if first is not None:
        raise first
    return [one.result() for one in running]
