"""Writes pages and history copies, before the compare-and-swap that names them.

After a lost race they are garbage, which no reader knows and rule 5 removes: their number is not above the manifest's.
No object is ever overwritten; an object found under our own key is compared.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial

from crc32c import crc32c
from msgspec.structs import replace

from stratalog.tier.documents.json import decompressed
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entries import read_page
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.history import KeptHistory, is_kept, trim_history
from stratalog.tier.manifests.json import from_bytes, predecessor_hash
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import Preparation, StoredManifest
from stratalog.tier.manifests.pages import (
    Spill,
    compressed,
    page_ref,
    page_to_bytes,
    plan_spill,
    spill,
)
from stratalog.tier.manifests.parts import HistoryRef, PageRef
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import AlreadyExists, NotFound, ObjectStore
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import uuid_text

__all__ = ["copying", "iter_history", "spilling", "write_page"]

log = logging.getLogger(__name__)


def spilling(store: ObjectStore, keep_count: int, kept: KeptHistory | None = None) -> Preparation:
    """For `change_manifest`: spills older entries to a page when there are too many, and copies the manifest before.

    ``keep_count`` newest entries stay inline in any case. Copies that ``kept`` does not want kept are moved to the trash
    on that occasion; None keeps them all.
    """

    def prepare(stored: StoredManifest, grown: Manifest) -> Manifest:
        plan, spilled = plan_spill(grown, keep_count), grown
        if plan is None:
            return grown
        while plan is not None:
            plan, merged = _merged(store, spilled, plan)
            page = write_page(store, spilled, [*merged, *spilled.entries[: plan.inline_count]], spilled.seq)
            if page is None:
                return grown
            spilled = spill(spilled, plan, page)
            plan = plan_spill(spilled, keep_count)
        history = _write_history(store, stored)
        spilled = replace(spilled, history=history)
        if kept is None:
            return spilled
        copies = list(store.list(grown.partition.history_prefix))
        return trim_history(spilled, copies, kept, now_ms=spilled.commits[-1].at_ms)

    return prepare


def copying(store: ObjectStore) -> Preparation:
    """For `change_manifest`: copies the manifest before, although no page is made."""

    def prepare(stored: StoredManifest, grown: Manifest) -> Manifest:
        return replace(grown, history=_write_history(store, stored))

    return prepare


def _merged(store: ObjectStore, manifest: Manifest, plan: Spill) -> tuple[Spill, list[Entry]]:
    """The live entries of the pages that the plan merges; the plan without them if one cannot be read."""
    try:
        return plan, [entry for page in plan.merged for entry in read_page(store, manifest, page)[page.dead_count :]]
    except (NotFound, Corrupt) as error:
        # New data must not wait for the repair of old pages.
        log.error("%s: pages are not merged, one of them cannot be read: %s", manifest.partition, error)
        return Spill((), plan.inline_count), []


def write_page(store: ObjectStore, manifest: Manifest, entries: Sequence[Entry], seq: int) -> PageRef | None:
    """Write a page for the change ``seq``; None if another attempt has left something else under its key.

    The next change has another number and thereby another key. Raises what the store raises, and `ManifestFull` for a page
    that no reader would take.
    """
    data = page_to_bytes(manifest.partition, entries)
    page = page_ref(manifest.partition, entries, data, seq)
    try:
        store.put_if_absent(page.key, data, crc32c=crc32c(data))
    except AlreadyExists:
        if store.get(page.key)[0] != data:
            log.warning("%s: %s was written by another attempt and differs", manifest.partition, page.key)
            return None
    return page


def _write_history(store: ObjectStore, stored: StoredManifest) -> HistoryRef | None:
    """Copy the manifest that is about to be replaced; what it named as history it still names itself."""
    before = stored.manifest
    if not stored.raw:
        return before.history
    key = before.partition.history_key(before.seq, uuid_text(before.claimant.uuid))
    data = compressed(stored.raw)
    try:
        store.put_if_absent(key, data, crc32c=crc32c(data))
    except AlreadyExists:
        if decompressed(store.get(key)[0], key) != stored.raw:
            log.error("%s: %s is a copy of another manifest of this number", before.partition, key)
            return before.history
    start = before.history.start if before.history is not None else 0
    return HistoryRef(before.seq, key, predecessor_hash(stored.raw), start)


def iter_history(store: ObjectStore, manifest: Manifest) -> Iterator[Manifest]:
    """The manifest's earlier states as they were copied at each spill, newest first, as far back as they are kept.

    Raises `NotFound` for a copy that is gone and `Corrupt` for one that is not what its successor says.
    """
    ref = manifest.history
    while ref is not None and is_kept(manifest, ref):
        copy, _ = get_checked(store, ref.key, partial(_copy, manifest.partition, ref))
        yield copy
        ref = copy.history


def _copy(partition: PartitionId, ref: HistoryRef, data: bytes) -> Manifest:
    raw = decompressed(data, ref.key)
    if predecessor_hash(raw) != ref.sha256:
        raise Corrupt(f"{partition}: {ref.key} is not the copy that its successor names")
    return from_bytes(raw, ref.key)
