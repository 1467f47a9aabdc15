"""The keys of a partition that no live entry names and that are still no orphans: trash, pages in it, jobs."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from stratalog.tier.documents.json import decompressed, parse_json
from stratalog.tier.documents.keys import HistoryKey, PageKey, SegmentKey, parse_key
from stratalog.tier.manifests.entry import entry_from_fields
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.pages import PAGE_BYTES_MAX
from stratalog.tier.manifests.parts import HISTORY_KIND, PAGE_KIND
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import Uuid

__all__ = ["ProtectedKeys", "protected_keys"]


class ProtectedKeys(NamedTuple):
    """Whole keys, and the uuids that an object's key may carry."""

    keys: frozenset[str]
    uuids: frozenset[Uuid]
    copies_up_to: str = ""
    """All history copies up to this key."""
    pages: bool = False
    """All pages and copies: a cut or a job may need them (see `tier.manifests.garbage`)."""
    objects: bool = False
    """All objects: a job does not say which it needs."""

    def covers(self, key: str) -> bool:
        """Whether the object under ``key`` is spoken for."""
        if key in self.keys:
            return True
        try:
            parsed = parse_key(key)
        except Invalid:
            return False
        if isinstance(parsed, HistoryKey):
            return self.pages or key <= self.copies_up_to
        if isinstance(parsed, SegmentKey):
            return self.objects or parsed.uuid in self.uuids
        return self.pages and isinstance(parsed, PageKey)


def protected_keys(store: ObjectStore, manifest: Manifest) -> ProtectedKeys:
    """The keys that trash, pins and jobs of the manifest protect. Raises what the store raises but `NotFound`."""
    keys = {item.key for item in manifest.trash}
    for item in manifest.trash:
        if item.kind == PAGE_KIND:
            keys.update(_keys_of_page(store, manifest, item.key))
    uuids = {job.uuid for job in manifest.jobs} | {uuid for job in manifest.jobs for uuid in job.inputs}
    copies_up_to = max((item.key for item in manifest.trash if item.kind == HISTORY_KIND), default="")
    return ProtectedKeys(
        frozenset(keys),
        frozenset(uuids),
        copies_up_to,
        pages=bool(manifest.pins or manifest.jobs),
        objects=any(not job.inputs for job in manifest.jobs),
    )


def _keys_of_page(store: ObjectStore, manifest: Manifest, key: str) -> list[str]:
    """The objects of a page in the trash: all of its entries, for those already gone do no harm."""
    try:
        return get_checked(store, key, partial(_keys_in, manifest, key))[0]
    except (NotFound, Corrupt):
        return []


def _keys_in(manifest: Manifest, key: str, data: bytes) -> list[str]:
    try:
        fields = parse_json(decompressed(data, key, PAGE_BYTES_MAX), key, limit_bytes=PAGE_BYTES_MAX)
        return [entry_from_fields(each, manifest.partition.prefix).key for each in fields["entries"]]
    except (ValueError, TypeError, LookupError) as error:
        raise Corrupt(f"{key} is no page: {error!r}") from error
