"""Pages: immutable objects that hold the older entries of a manifest, so that it stays small for ever. Pure.

A manifest keeps up to `INLINE_MAX` entries. Beyond, all but the newest `INLINE_KEPT` are spilled to a page; `FANOUT`
pages of one size class make one of the next, up to `MERGED_ENTRIES_MAX` entries. So every entry is rewritten at most
twice, and a manifest of a million entries names some dozens of pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import zstandard
from crc32c import crc32c
from msgspec.structs import replace

from stratalog.tier.documents.json import DOCUMENT_BYTES_MAX, decompressed, parse_json
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.documents.unknown_fields import canonical_json
from stratalog.tier.manifests.entry import Entry, entry_from_fields, entry_to_fields
from stratalog.tier.manifests.manifest import Manifest, ManifestFull
from stratalog.tier.manifests.parts import PageRef, TrashEntry, totals_of
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import uuid_text

__all__ = [
    "FANOUT",
    "INLINE_KEPT",
    "INLINE_MAX",
    "PAGE_BYTES_MAX",
    "Spill",
    "compressed",
    "page_fields",
    "page_from_bytes",
    "page_ref",
    "page_to_bytes",
    "plan_spill",
    "spill",
]

INLINE_MAX: Final = 128
"""Entries that a manifest holds before it spills: about 64 KiB of JSON."""
INLINE_KEPT: Final = 64
"""The newest entries that stay inline in a spill."""
FANOUT: Final = 16
"""Pages of one size class that are merged into one of the next."""
MERGED_ENTRIES_MAX: Final = (INLINE_MAX - INLINE_KEPT) * FANOUT**2
"""Pages of this many entries are not merged any more, and none gets more at once: reading one must not take long."""
PAGE_BYTES_MAX: Final = 64 << 20
"""Above a page of `MERGED_ENTRIES_MAX` entries."""
ENTRY_BYTES_MAX: Final = 4 << 10
"""An entry has some 400 bytes of JSON, and 20 more for each leader epoch beyond the first."""
_ENTRY_OBJECTS_MAX: Final = 4
_PAGE_ENTRIES_MAX: Final = 4
"""So many times `MERGED_ENTRIES_MAX` may be merged into one page, where pages came in unusual sizes."""
_FORMAT: Final = "stratalog-page"
_VERSION: Final = 1
_ZSTD_LEVEL: Final = 3


def compressed(data: bytes) -> bytes:
    """``data`` as one zstd frame that tells its size."""
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(data)


def _limit_bytes(entry_count: int) -> int:
    """The most bytes that a page of so many entries may have, uncompressed."""
    return min(max(DOCUMENT_BYTES_MAX, ENTRY_BYTES_MAX * entry_count), PAGE_BYTES_MAX)


def page_to_bytes(partition: PartitionId, entries: Sequence[Entry]) -> bytes:
    """A page with ``entries``, as stored. Raises `ManifestFull` for one that no reader would take."""
    fields = {
        "format": _FORMAT,
        "version": _VERSION,
        "min_reader_version": _VERSION,
        "topic": partition.topic,
        "topic_id": uuid_text(partition.topic_id),
        "partition": partition.partition,
        "entries": [entry_to_fields(entry, partition.prefix) for entry in entries],
    }
    raw = canonical_json(fields).encode("ascii")
    if len(raw) > _limit_bytes(len(entries)):
        raise ManifestFull(
            f"{partition}: a page of {len(entries)} entries would have {len(raw)} bytes, more than the "
            f"{_limit_bytes(len(entries))} that readers take: nothing was changed"
        )
    return compressed(raw)


def page_fields(data: bytes, ref: PageRef, partition: PartitionId) -> list[Mapping[str, Any]]:
    """The JSON fields of all entries of a page, those that are no longer live too.

    Raises `Corrupt` unless the bytes are those that ``ref`` names, of a page of this partition.
    """
    if len(data) != ref.size_bytes or crc32c(data) != ref.crc32c:
        raise Corrupt(
            f"{partition}: the page {ref.key} is damaged: {len(data)} bytes with CRC-32C {crc32c(data):08x}, the "
            f"manifest says {ref.size_bytes} and {ref.crc32c:08x}. Restore it from a copy, or repair the archive"
        )
    try:
        limit_bytes = _limit_bytes(ref.entry_count)
        objects_max = min(_ENTRY_OBJECTS_MAX * (ref.entry_count + 1), limit_bytes // 32)
        raw = decompressed(data, ref.key, limit_bytes)
        fields = parse_json(raw, ref.key, limit_bytes=limit_bytes, objects_max=objects_max)
        owner = fields["topic"], fields["topic_id"], fields["partition"]
        entries: list[Mapping[str, Any]] = fields["entries"]
        if fields["format"] != _FORMAT or fields["min_reader_version"] > _VERSION or len(entries) != ref.entry_count:
            raise Corrupt(
                f"format {fields['format']!r}, version {fields['min_reader_version']}, {len(entries)} entries"
            )
    except (ValueError, TypeError, LookupError, Corrupt) as error:
        raise Corrupt(f"{partition}: the page {ref.key} cannot be read: {error!r}") from error
    if owner != (partition.topic, uuid_text(partition.topic_id), partition.partition):
        raise Corrupt(f"{partition}: the page {ref.key} belongs to {owner}")
    return entries


def page_from_bytes(data: bytes, ref: PageRef, partition: PartitionId) -> tuple[Entry, ...]:
    """All entries of a page, those that are no longer live too: skip ``ref.dead_count``.

    Raises `Corrupt` also for entries that leave a hole or do not fill what ``ref`` says.
    """
    return tuple(_contiguous(page_fields(data, ref, partition), ref, partition))


def _contiguous(fields: Sequence[Mapping[str, Any]], ref: PageRef, partition: PartitionId) -> Iterator[Entry]:
    folder, at = partition.prefix, ref.first
    for number, each in enumerate(fields):
        entry = entry_from_fields(each, folder)
        if entry.base != at or (number == ref.dead_count and at != ref.live_first):
            raise Corrupt(f"{partition}: the page {ref.key} is damaged: entry {number} begins at offset {entry.base}")
        yield entry
        at = entry.end
    if at != ref.end:
        raise Corrupt(f"{partition}: the page {ref.key} is damaged: its entries end at {at}, not at {ref.end}")


def page_ref(partition: PartitionId, entries: Sequence[Entry], data: bytes, seq: int) -> PageRef:
    """The reference of a page with ``entries``, all of them live, stored as ``data`` by the change ``seq``."""
    first, end = entries[0].base, entries[-1].end
    return PageRef(
        key=partition.page_key(first, end, seq),
        first=first,
        end=end,
        seq=seq,
        entry_count=len(entries),
        size_bytes=len(data),
        crc32c=crc32c(data),
        totals=totals_of(entries),
        min_timestamp_ms=min(entry.min_timestamp_ms for entry in entries),
        max_timestamp_ms=max(entry.max_timestamp_ms for entry in entries),
        aborted_count=sum(1 for entry in entries if entry.aborted_count),
        epoch_max=max(entry.epoch for entry in entries),
        live_first=first,
        front_timestamp_ms=entries[0].max_timestamp_ms,
    )


class Spill(NamedTuple):
    """A page to write: the live entries of ``merged`` pages, the last ones, and then the ``inline_count`` oldest inline."""

    merged: tuple[PageRef, ...]
    inline_count: int


def plan_spill(manifest: Manifest, keep_count: int = 0) -> Spill | None:
    """The entries to spill from a manifest that is about to be stored; None while it is small. There may be more after them.

    ``keep_count`` newest entries stay inline in any case: those that this very change has added, so that a repetition
    of it is recognised.
    """
    count = len(manifest.entries)
    spilled = min(count - max(INLINE_KEPT, keep_count), MERGED_ENTRIES_MAX)
    if count <= INLINE_MAX or spilled <= 0:
        return None
    merged: tuple[PageRef, ...] = ()
    total, level = spilled, _level(spilled)
    while True:
        run = _last_of_level(manifest.pages[: len(manifest.pages) - len(merged)], level)
        total += sum(page.entry_count - page.dead_count for page in run)
        if len(run) < FANOUT - 1 or total > _PAGE_ENTRIES_MAX * MERGED_ENTRIES_MAX:
            return Spill(merged, spilled)
        merged = (*run, *merged)
        level = max(level + 1, _level(total))


def _level(entry_count: int) -> int:
    """The size class of a page: 0 below 16 spills, 1 below 256, then it is left alone."""
    unit = INLINE_MAX - INLINE_KEPT
    return 0 if entry_count < unit * FANOUT else 1 if entry_count < MERGED_ENTRIES_MAX else 2


def _last_of_level(pages: Sequence[PageRef], level: int) -> tuple[PageRef, ...]:
    """The last pages, as long as they are of size class ``level`` or below; none of the class that is left alone."""
    if level > 1:
        return ()
    start = len(pages)
    while start and _level(pages[start - 1].entry_count) <= level:
        start -= 1
    return tuple(pages[start:])


def spill(manifest: Manifest, plan: Spill, page: PageRef) -> Manifest:
    """``manifest`` after ``plan``, when ``page`` has been written: the merged pages' files go to the trash.

    It stays the same change: the number was given by what made the manifest grow.
    """
    kept = manifest.pages[: len(manifest.pages) - len(plan.merged)]
    trashed = tuple(
        TrashEntry(old.key, old.size_bytes, old.epoch_max, manifest.seq, "pages merged") for old in plan.merged
    )
    return replace(
        manifest,
        pages=(*kept, page),
        entries=manifest.entries[plan.inline_count :],
        trash=manifest.trash + trashed,
    )
