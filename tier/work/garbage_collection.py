"""Finds garbage in a bucket, and removes it when asked: objects of attempts that were never committed, and the like.

For each partition, in this order (rule 5 of ``docs/safety.md``): its objects and unfinished uploads are listed, then its
manifest, pages, trash and the copies that cuts keep are read, then each object is judged. Where anything of that cannot
be read, the whole partition stays as it is. A folder without a manifest is only reported: its content is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial

from msgspec import Struct, field

from stratalog.tier.bucket.partition_folders import WHOLE_NAME_MAX, partition_folders, topic_folders
from stratalog.tier.documents.keys import CLUSTERS_PREFIX, PartitionId, topic_key
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.garbage import Verdict, judge, old_enough
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.leases import is_over, list_leases
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.manifests.named_keys import named_keys
from stratalog.tier.stores.checked_read import get_checked, get_json
from stratalog.tier.stores.probe import PROBE_PREFIX
from stratalog.tier.stores.store import NotFound, ObjectInfo, ObjectStore, UploadInfo
from stratalog.wire.errors import Corrupt, Invalid, Unknown
from stratalog.wire.topic import uuid_text

__all__ = ["GarbageOptions", "PartitionGarbage", "collect", "collect_leases", "collect_probes"]


class GarbageOptions(Struct, frozen=True):
    """``apply``: remove what is found; without, nothing is written."""

    now_ms: int
    grace_ms: int
    apply: bool = False


class PartitionGarbage(Struct):
    """Findings in one partition's folder.

    ``topic`` is the whole name as far as it is known. ``kept`` counts what is not garbage, by verdict; ``trash_count``
    are items that the leader will remove. ``problem`` is why nothing was judged, ``remark`` what else is worth knowing.
    """

    partition: PartitionId
    garbage: list[ObjectInfo] = field(default_factory=list)
    uploads: list[UploadInfo] = field(default_factory=list)
    kept: Counter[Verdict] = field(default_factory=Counter)
    trash_count: int = 0
    problem: str = ""
    remark: str = ""

    @property
    def size_bytes(self) -> int:
        """Bytes of the garbage; those of unfinished uploads are not told by stores."""
        return sum(info.size_bytes for info in self.garbage)


def collect(
    store: ObjectStore, options: GarbageOptions, topics: Collection[str] | None = None
) -> Iterator[PartitionGarbage]:
    """Judge, and with ``apply`` remove, one partition after the other; of ``topics``, or all if None.

    Raises `Unknown` for a topic that is not there, and what the store raises.
    """
    copies = [info.key for info in store.list(CLUSTERS_PREFIX) if "/cuts/" in info.key]
    folders = list(partition_folders(store) if topics is None else topic_folders(store, topics))
    held = {folder.topic for folder in folders}
    if missing := sorted(name for name in topics or () if name[:WHOLE_NAME_MAX] not in held):
        raise Unknown(f"topic {missing[0]} is not in the bucket {store.url}")
    for folder in folders:
        found = _examine(store, folder, copies, options)
        if topics is None or found.partition.topic in topics or found.problem:
            if options.apply:
                _remove(store, found)
            yield found


def collect_leases(store: ObjectStore, options: GarbageOptions) -> int:
    """How many leases ran out longer ago than the grace; with ``apply`` they are removed."""
    over = [lease.key for lease in list_leases(store) if is_over(lease, options.now_ms - options.grace_ms)]
    if options.apply:
        store.delete_many(over)
    return len(over)


def collect_probes(store: ObjectStore, options: GarbageOptions) -> int:
    """How many objects are left of probes that ended half-way, as of brokers that were killed at their start; as above."""
    left = [
        one.key
        for one in store.list(f"{PROBE_PREFIX}/")
        if old_enough(one.modified_ms, options.now_ms, options.grace_ms)
    ]
    if options.apply:
        store.delete_many(left)
    return len(left)


def _examine(
    store: ObjectStore, folder: PartitionId, copies: Collection[str], options: GarbageOptions
) -> PartitionGarbage:
    listed = list(store.list(folder.prefix))  # first, whatever is read afterwards is at least as new
    uploads = list(store.list_uploads(folder.prefix))
    found = PartitionGarbage(folder)
    try:
        manifest = _manifest(store, folder)
        named = named_keys(store, manifest) | _named_by_cuts(store, folder, copies)
    except (NotFound, Corrupt, Invalid) as error:
        found.problem = str(error)
        return found
    found.partition = manifest.partition
    found.trash_count = len(manifest.trash)
    found.remark = _remark(store, manifest)
    for info in listed:
        verdict = judge(manifest, named, info, now_ms=options.now_ms, grace_ms=options.grace_ms)
        if verdict is Verdict.GARBAGE:
            found.garbage.append(info)
        else:
            found.kept[verdict] += 1
    found.uploads = [one for one in uploads if old_enough(one.started_ms, options.now_ms, options.grace_ms)]
    return found


def _manifest(store: ObjectStore, folder: PartitionId) -> Manifest:
    """The folder's manifest; its name in keys may be cut, the manifest has the whole one. Raises `Corrupt`."""
    try:
        manifest, _ = get_checked(store, folder.manifest_key, partial(from_bytes, key=folder.manifest_key))
    except NotFound as error:
        raise Corrupt(
            f"{folder.manifest_key} is missing: the objects of the folder are not judged. `stratalog tier repair` rebuilds it"
        ) from error
    return read_manifest(store, manifest.partition).manifest


def _named_by_cuts(store: ObjectStore, folder: PartitionId, copies: Collection[str]) -> set[str]:
    """The keys that manifests copied by cuts name. Raises `NotFound`, `Corrupt`."""
    named: set[str] = set()
    ending = f"/{uuid_text(folder.topic_id)}-{folder.partition:010}.json"
    for key in copies:
        if key.endswith(ending):
            pinned = get_checked(store, key, partial(from_bytes, key=key))[0]
            named.update(entry.key for entry in iter_entries(store, pinned, 0, _end_of_cut(pinned, key)))
            named.update(page.key for page in pinned.pages)
    return named


def _end_of_cut(pinned: Manifest, key: str) -> int | None:
    """Up to where the cut needs what its copy ``key`` of a manifest names; None if that does not say so.

    Pages behind that have left the bucket, perhaps.
    """
    cut_id = key.split("/")[-2]
    return next((pin.remote_end for pin in pinned.pins if pin.cut_id == cut_id), None)


def _remark(store: ObjectStore, manifest: Manifest) -> str:
    """True if a broker has described the topic."""
    key = topic_key(manifest.partition.topic, manifest.partition.topic_id)
    try:
        state = get_json(store, key)[0]["state"]
    except NotFound:
        return f"no broker has described this topic ({key} is missing)"
    except (Corrupt, TypeError, LookupError) as error:
        return f"{key} cannot be read: {error!r}"
    if manifest.deleted_ms >= 0 and state == "deleted":
        return "the topic was deleted, its broker removes the archive"
    return ""


def _remove(store: ObjectStore, found: PartitionGarbage) -> None:
    store.delete_many(info.key for info in found.garbage)
    for one in found.uploads:
        store.abort_upload(one.key, one.upload_id)
