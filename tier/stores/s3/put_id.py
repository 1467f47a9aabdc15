"""Recognising one's own write after its answer was lost.

A conditional write that is sent twice because the first answer never came is refused the second time: the object that
stands in its way is its own. Each such write carries a mark in the object's metadata; a refused writer compares it.
"""

from __future__ import annotations

import uuid

from stratalog.tier.stores.store import PUT_ID, Metadata, NotFound, ObjectStore, Version

__all__ = ["own_version", "with_put_id"]


def with_put_id(metadata: Metadata | None) -> dict[str, str]:
    """Return a copy of ``metadata`` with a ``put-id``: the caller's own, or a new one."""
    return {PUT_ID: uuid.uuid4().hex, **(metadata or {})}


def own_version(store: ObjectStore, key: str, put_id: str) -> Version | None:
    """Return the version of the object under ``key`` if it carries ``put_id``, else ``None`` (one HEAD)."""
    try:
        info = store.head(key)
    except NotFound:
        return None
    return info.version if info.metadata.get(PUT_ID) == put_id else None
