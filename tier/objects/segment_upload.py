"""Uploads a built ``.seg`` object under its own key and checks what the store then holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from stratalog.tier.manifests.entry import Entry
from stratalog.tier.objects.segment_object import BuiltSegment
from stratalog.tier.objects.segment_reader import read_chunk, read_object_footer
from stratalog.tier.stores.storage_class import class_metadata
from stratalog.tier.stores.store import (
    AlreadyExists,
    Buffer,
    ConfirmedVersion,
    FileRange,
    Metadata,
    ObjectStore,
    Version,
)
from stratalog.wire.errors import Corrupt

__all__ = ["PART_BYTES", "SINGLE_PUT_BYTES_MAX", "ObjectDiffers", "put_segment", "release_pages", "verify_object"]

SINGLE_PUT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Up to here the log bytes of an object go in one PUT: one write request instead of ten."""
PART_BYTES: Final = 16 * 1024 * 1024
"""One part of a multipart upload; memory holds a few."""


class ObjectDiffers(Corrupt):
    """The store holds another length or CRC-32C under the key than was uploaded: the object is not to be trusted."""


def put_segment(
    store: ObjectStore,
    built: BuiltSegment,
    *,
    part_bytes: int = PART_BYTES,
    single_put_bytes_max: int = SINGLE_PUT_BYTES_MAX,
    storage_class: str = "",
) -> Entry:
    """Upload; returns the entry to commit. Unless the store's answer confirms the CRC-32C of the only PUT, a HEAD has to.

    An object that exists under our own key is an earlier attempt whose reply was lost: the HEAD decides. Raises
    `ObjectDiffers`, and what the store raises.
    """
    entry = built.entry
    metadata = class_metadata(store, storage_class)
    if entry.data_bytes > single_put_bytes_max:
        # Its CRC is counted again while it is sent, and that one is what the store confirms: the HEAD compares ours.
        store.put_large(entry.key, built.source, part_bytes=part_bytes, metadata=metadata)
        verify_object(store, entry)
    elif not isinstance(put_once(store, entry, built.source, metadata), ConfirmedVersion):
        verify_object(store, entry)
    return entry


def put_once(
    store: ObjectStore, entry: Entry, source: Sequence[Buffer | FileRange], metadata: Metadata | None = None
) -> Version | None:
    """One PUT that overwrites nothing; None if there is such an object."""
    try:
        return store.put_if_absent(entry.key, source, crc32c=entry.crc32c, metadata=metadata)
    except AlreadyExists:
        return None  # our own earlier attempt; verify_object compares it


def verify_object(store: ObjectStore, entry: Entry) -> None:
    """Compare what the store holds with the entry: length and CRC-32C by HEAD.

    Where the store keeps no CRC, the footer, the chunk table and the last chunk are read back instead.
    Raises `ObjectDiffers`, `NotFound`, and what the store raises.
    """
    info = store.head(entry.key)
    if info.size_bytes != entry.size_bytes:
        raise ObjectDiffers(f"{entry.key} has {info.size_bytes} bytes in {store.url}, {entry.size_bytes} were written")
    if info.crc32c is not None:
        if info.crc32c != entry.crc32c:
            raise ObjectDiffers(
                f"{entry.key} has CRC-32C {info.crc32c:08x} in {store.url}, {entry.crc32c:08x} was written"
            )
        return
    _read_back(store, entry)


def _read_back(store: ObjectStore, entry: Entry) -> None:
    """The tail and one chunk, for a store that knows no checksums."""
    footer = read_object_footer(store, entry.key)
    if footer.entry.uuid != entry.uuid or footer.chunks is None or not len(footer.chunks):
        raise ObjectDiffers(f"{entry.key} in {store.url} has the footer of another object")
    read_chunk(store, entry.key, footer.chunks[len(footer.chunks) - 1])


def release_pages(source: Sequence[Buffer | FileRange]) -> None:
    """Give the page cache of the uploaded files back: an upload must not push hot data out of memory (rule 7)."""
    for piece in source:
        if isinstance(piece, FileRange):
            descriptor = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(descriptor, piece.position, piece.length, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
