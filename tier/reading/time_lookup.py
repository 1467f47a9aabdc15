"""Where a time begins in an archive: the first record, in offset order, that is not older."""

from __future__ import annotations

from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.messages.commands import FindTimestamp
from stratalog.tier.reading.fill import find_timestamp
from stratalog.tier.stores.store import ObjectStore

__all__ = ["offset_at"]


def offset_at(store: ObjectStore, manifest: Manifest, timestamp_ms: int) -> int | None:
    """The offset of the first readable record at or after a time; None if all archived records are older.

    As Kafka's ListOffsets does, it looks at every record, committed or not. Costs a tail and one or two chunks of each
    object that may hold it, which is usually one. Raises `Corrupt`, and what the store raises.
    """
    for entry in iter_entries(store, manifest, manifest.log_start_offset):
        if entry.max_timestamp_ms < timestamp_ms:
            continue
        command = FindTimestamp(manifest.partition, entry.key, timestamp_ms, manifest.log_start_offset)
        found = find_timestamp(store, command)
        if found.offset >= 0:
            return found.offset
    return None
