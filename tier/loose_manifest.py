"""Reads a manifest for those who look for damage: entries need not follow each other, and what is unreadable is told."""

from __future__ import annotations

from dataclasses import dataclass

from stratalog.tier.entry import Entry, entry_from_fields
from stratalog.tier.keys import PartitionId
from stratalog.tier.manifest import Manifest
from stratalog.tier.manifest_json import from_bytes
from stratalog.tier.manifest_pages import page_fields
from stratalog.tier.manifest_parts import PageRef
from stratalog.tier.store import NotFound, ObjectStore, Version
from stratalog.wire.errors import Corrupt

__all__ = ["LooseManifest", "page_entries", "read_loosely"]


@dataclass(frozen=True, slots=True)
class LooseManifest:
    """What the store holds under a manifest's key.

    ``manifest`` is None if nothing is there (``raw`` is then empty) or it cannot be read (``fault`` says why).
    """

    manifest: Manifest | None
    version: Version
    raw: bytes
    fault: str = ""


def read_loosely(store: ObjectStore, partition: PartitionId) -> LooseManifest:
    """The manifest as far as it can be read; what was damaged only on its way is right the second time.

    Raises `NewerManifest`, and what the store raises but `NotFound`.
    """
    loose = _read_once(store, partition)
    return _read_once(store, partition) if loose.fault else loose


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
    try:
        return _page_entries(store, manifest, page)
    except Corrupt:
        return _page_entries(store, manifest, page)  # it may have been damaged on its way


def _page_entries(store: ObjectStore, manifest: Manifest, page: PageRef) -> list[Entry]:
    data, _ = store.get(page.key)
    partition = manifest.partition
    fields = page_fields(data, page, partition)[page.dead_count :]
    return [entry_from_fields(each, partition.prefix) for each in fields]
