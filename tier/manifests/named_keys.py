"""Every key that a manifest names, directly or through its pages, its trash and its history."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from typing import Any

from stratalog.tier.documents.json import decompressed, parse_json
from stratalog.tier.documents.keys import HistoryKey, PartitionId, parse_key
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.history import is_kept
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.pages import PAGE_BYTES_MAX
from stratalog.tier.manifests.parts import HISTORY_KIND, PAGE_KIND, TrashEntry
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.errors import Corrupt, Invalid

__all__ = ["named_keys", "objects_of"]


def named_keys(store: ObjectStore, manifest: Manifest) -> set[str]:
    """The keys of live entries, pages, trash and history copies.

    Raises `NotFound` or `Corrupt` if a page cannot be read: then its other names are unknown, and nothing may be
    removed.
    """
    named = {entry.key for entry in iter_entries(store, manifest)}
    named.update(page.key for page in manifest.pages)
    for item in manifest.trash:
        named.update(objects_of(store, manifest.partition, item))
    named.update(_history(store, manifest))
    return named


def objects_of(store: ObjectStore, partition: PartitionId, item: TrashEntry) -> list[str]:
    """The objects to remove when ``item`` leaves the trash, in this order: for a page, the objects of its entries, then the page.

    For a history copy that stands for others: those that are listed, the oldest first.
    A page that is gone went last: nothing of it is left. Raises `Corrupt` for a page that cannot be read.
    """
    if item.kind == HISTORY_KIND:
        older = takewhile(lambda info: info.key < item.key, store.list(partition.history_prefix))
        return [*(info.key for info in older if _is_history(info.key)), item.key]
    if item.kind != PAGE_KIND:
        return [item.key]
    try:
        locs, _ = get_checked(store, item.key, partial(_locations, partition, item))
    except NotFound:
        return [item.key]
    return [*(loc[1:] if loc.startswith("/") else partition.prefix + loc for loc in locs), item.key]


def _locations(partition: PartitionId, item: TrashEntry, data: bytes) -> list[str]:
    try:
        fields: dict[str, Any] = parse_json(
            decompressed(data, item.key, PAGE_BYTES_MAX), item.key, limit_bytes=PAGE_BYTES_MAX
        )
        return [str(each["loc"]) for each in fields["entries"][item.dead_count :]]
    except (TypeError, LookupError) as error:
        raise Corrupt(f"{partition}: the page {item.key} in the trash cannot be read: {error!r}") from error


def _is_history(key: str) -> bool:
    try:
        return isinstance(parse_key(key), HistoryKey)
    except Invalid:
        return False


def _history(store: ObjectStore, manifest: Manifest) -> Iterator[str]:
    """The chain of history copies that are kept, newest first.

    A copy that is gone ends it; one that cannot be read raises `Corrupt`.
    """
    seen: set[str] = set()
    ref = manifest.history
    while ref is not None and ref.key not in seen and is_kept(manifest, ref):
        seen.add(ref.key)
        yield ref.key
        try:
            copy, _ = get_checked(store, ref.key, partial(_copy, ref.key))
        except NotFound:
            return
        ref = copy.history


def _copy(key: str, data: bytes) -> Manifest:
    return from_bytes(decompressed(data, key), key)
