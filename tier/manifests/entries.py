"""All live entries of an archive, from its pages and its manifest, in offset order."""

from __future__ import annotations

import math
from collections.abc import Iterator

from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.pages import page_from_bytes
from stratalog.tier.manifests.parts import PageRef
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import ObjectStore

__all__ = ["iter_entries", "read_page"]


def read_page(store: ObjectStore, manifest: Manifest, page: PageRef) -> tuple[Entry, ...]:
    """All entries of one page, those that are no longer live too (skip ``page.dead_count``).

    Raises `NotFound` if the page is gone (the manifest is old, or the page was lost), `Corrupt` for a damaged one.
    """
    return get_checked(store, page.key, lambda data: page_from_bytes(data, page, manifest.partition))[0]


def iter_entries(
    store: ObjectStore, manifest: Manifest, start_offset: int = 0, end_offset: int | None = None
) -> Iterator[Entry]:
    """The live entries that end behind ``start_offset`` and begin before ``end_offset``; a page is read when its turn comes.

    A manifest that a cut has kept is read up to the end of the cut only: nothing holds its pages behind that in the bucket.
    Raises what `read_page` raises.
    """
    end = math.inf if end_offset is None else end_offset
    for page in manifest.pages:
        if page.end > start_offset and page.live_first < end:
            entries = read_page(store, manifest, page)[page.dead_count :]
            yield from (entry for entry in entries if entry.end > start_offset and entry.base < end)
    yield from (entry for entry in manifest.entries if entry.end > start_offset and entry.base < end)
