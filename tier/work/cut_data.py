"""The records of a cut, object by object: what a restore of it writes into logs of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.objects.segment_blobs import aborted_from_bytes
from stratalog.tier.objects.segment_reader import read_blob, read_chunks, read_object_footer
from stratalog.tier.reading.bounded_view import below
from stratalog.tier.stores.store import ObjectStore

__all__ = ["aborted_across", "batches_below", "first_offset", "held_bytes"]

_CHUNKS_AT_ONCE: Final = 3


def first_offset(store: ObjectStore, manifest: Manifest, end: int) -> int:
    """Where the batches of an archive below ``end`` begin: at its log start or before it, in the object that holds it."""
    entry = next(_entries(store, manifest, end), None)
    return manifest.log_start_offset if entry is None else entry.base


def held_bytes(store: ObjectStore, manifest: Manifest, end: int) -> int:
    """About how many bytes of records stand below ``end``: those of whole objects."""
    return sum(entry.data_bytes for entry in _entries(store, manifest, end))


def batches_below(store: ObjectStore, manifest: Manifest, end: int) -> Iterator[bytes]:
    """The batches of an archive up to offset ``end``, checked, a few chunks at a time.

    The last one is written anew if it holds records from ``end`` on. Raises `CorruptObject`, and what the store raises.
    """
    for entry in _entries(store, manifest, end):
        chunks = read_object_footer(store, entry.key).chunks
        assert chunks is not None, "read_object_footer always reads the chunk table"
        wanted = [chunk for chunk in chunks if chunk.first_offset < end]
        for at in range(0, len(wanted), _CHUNKS_AT_ONCE):
            for data in read_chunks(store, entry.key, wanted[at : at + _CHUNKS_AT_ONCE]):
                yield bytes(data) if entry.end <= end else below(bytes(data), end)


def aborted_across(store: ObjectStore, manifest: Manifest, end: int) -> frozenset[tuple[int, int]]:
    """``(producer id, first offset)`` of transactions that were under way at ``end`` and aborted later."""
    last = next(iter(deque(_entries(store, manifest, end), maxlen=1)), None)
    if last is None or not last.aborted_count:
        return frozenset()
    footer = read_object_footer(store, last.key)
    aborted = aborted_from_bytes(read_blob(store, last.key, footer, "aborted"))
    return frozenset(
        (one.producer_id, one.first_offset) for one in aborted if one.first_offset < end <= one.last_offset
    )


def _entries(store: ObjectStore, manifest: Manifest, end: int) -> Iterator[Entry]:
    return iter_entries(store, manifest, manifest.log_start_offset, end)
