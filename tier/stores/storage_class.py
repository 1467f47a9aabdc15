"""The storage class of an object on its way into a store: taken out of the metadata, or left out with one warning."""

from __future__ import annotations

import logging
from typing import Any

from stratalog.tier.stores.store import STORAGE_CLASS, Metadata, ObjectStore

__all__ = ["class_metadata", "split_storage_class"]

_warned: set[str] = set()

log = logging.getLogger(__name__)


def class_metadata(store: ObjectStore, storage_class: str) -> dict[str, str] | None:
    """The metadata that asks ``store`` for the class; None for no class, or for a store that has none: said once."""
    if not storage_class:
        return None
    if store.capabilities.storage_classes:
        return {STORAGE_CLASS: storage_class}
    if store.url not in _warned:
        _warned.add(store.url)
        log.warning(
            "%s has no storage classes: stratalog.storage.class=%s is ignored there; set it to the empty text to say so",
            store.url,
            storage_class,
        )
    return None


def split_storage_class(metadata: Metadata) -> tuple[dict[str, str], dict[str, Any]]:
    """The metadata without the class, and S3's parameter for it."""
    kept = dict(metadata)
    storage_class = kept.pop(STORAGE_CLASS, None)
    return kept, {"StorageClass": storage_class} if storage_class else {}
