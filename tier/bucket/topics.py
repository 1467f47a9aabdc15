"""The manifests of topics by name, from the bucket alone. It writes nothing.

If topics were deleted and created again under one name, the one claimed last counts.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from stratalog.tier.bucket.partition_folders import partition_folders, topic_folders
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import NotFound, ObjectStore

__all__ = ["newest_manifests"]

_THREADS: Final = 16


def newest_manifests(
    store: ObjectStore, topics: Collection[str] | None = None, partition: int | None = None
) -> list[Manifest]:
    """The manifests of ``topics`` (all if None), or of one partition of each, by topic and partition.

    A topic or partition that nothing was archived of is missing, and so is one that was deleted. Raises `Corrupt`, and what the store raises.
    """
    found = partition_folders(store) if topics is None else topic_folders(store, topics)
    folders = [each for each in found if partition in {None, each.partition}]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-manifests") as pool:
        manifests = [
            each for each in pool.map(lambda folder: _manifest(store, folder), folders) if each and each.deleted_ms < 0
        ]
    newest: dict[str, tuple[int, bytes]] = {}
    for each in manifests:
        claimed = (each.claimed_ms, each.partition.topic_id)
        newest[each.partition.topic] = max(claimed, newest.get(each.partition.topic, claimed))
    live = [
        each
        for each in manifests
        if each.partition.topic_id == newest[each.partition.topic][1]
        and (topics is None or each.partition.topic in topics)
    ]
    return sorted(live, key=lambda each: (each.partition.topic, each.partition.partition))


def _manifest(store: ObjectStore, folder: PartitionId) -> Manifest | None:
    try:
        return get_checked(store, folder.manifest_key, partial(from_bytes, key=folder.manifest_key))[0]
    except NotFound:
        return None  # a folder without a commit
