"""Reads a manifest for those who look for damage: entries need not follow each other, and unreadable parts are reported."""

from __future__ import annotations

from msgspec import Struct

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry, entry_from_fields
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.pages import page_fields
from stratalog.tier.manifests.parts import PageRef
from stratalog.tier.stores.checked_read import READS_MAX, get_checked
from stratalog.tier.stores.store import NotFound, ObjectStore, Version
from stratalog.wire.errors import Corrupt

__all__ = ["LooseManifest", "page_entries", "read_loosely"]


class LooseManifest(Struct, frozen=True):
    """The bytes that the store holds under a manifest's key.

    ``manifest`` is None if nothing is there (``raw`` is then empty) or it cannot be read (``fault`` says why).
    """

    manifest: Manifest | None
    version: Version
    raw: bytes
    fault: str = ""


def read_loosely(store: ObjectStore, partition: PartitionId) -> LooseManifest:
    """The manifest as far as it can be read; what was damaged only on its way is right when it is read again.

    Raises `NewerManifest`, and what the store raises but `NotFound`.
    """
    for _ in range(READS_MAX - 1):
        loose = _read_once(store, partition)
        if not loose.fault:
            return loose
    return _read_once(store, partition)


def _read_once(store: ObjectStore, partition: PartitionId) -> LooseManifest:
    key = partition.manifest_key
    try:
        raw, version = store.get(key)
    except NotFound:
        return LooseManifest(None, "", b"")
    try:
        return LooseManifest(from_bytes(raw, key, contiguous=False), version, raw)
    except Corrupt as error:
        return LooseManifest(None, version, raw, str(error))


def page_entries(store: ObjectStore, manifest: Manifest, page: PageRef) -> list[Entry]:
    """The live entries of a page, which need not follow each other. Raises `NotFound`, `Corrupt`."""
    partition = manifest.partition

    def entries(data: bytes) -> list[Entry]:
        fields = page_fields(data, page, partition)[page.dead_count :]
        return [entry_from_fields(each, partition.prefix) for each in fields]

    return get_checked(store, page.key, entries)[0]
