"""An archive as it was: the part of a partition below an offset, for readers that must not see more.

Objects and chunks that lie wholly below the end are read as ever. From the chunk that the end lies in, the *tail*, only the
records below it are handed out: its batches, and the last one is written anew without the records that follow. So
what readers are given ends exactly there, whatever batches producers made.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c
from msgspec.structs import replace

from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.manifests.view import ManifestView
from stratalog.tier.messages.commands import ReadBoundedView
from stratalog.tier.messages.reports import BoundedViewRead, Tail
from stratalog.tier.objects.segment_blobs import aborted_from_bytes
from stratalog.tier.objects.segment_reader import read_blob, read_chunk, read_object_footer
from stratalog.tier.reading.time_lookup import offset_at
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import ObjectStore, Version
from stratalog.wire.batch import (
    CRC_START,
    BatchHeader,
    build_batch,
    iter_headers,
    iter_records,
)
from stratalog.wire.errors import Corrupt

__all__ = ["below", "read_bounded_view"]

_LAST_OFFSET_DELTA_AT: Final = 23
_CRC_AT: Final = 17
_U32: Final = Struct(">I")


def read_bounded_view(store: ObjectStore, command: ReadBoundedView) -> BoundedViewRead:
    """The view, and its tail. Raises `Corrupt` for damage, and what the store raises."""
    manifest, version = _manifest(store, command)
    end, covered = _end(store, manifest, command)
    kept: list[Entry] = []
    tail = None
    for entry in iter_entries(store, manifest, 0, end):
        if entry.end <= end:
            kept.append(entry)
            continue
        tail, latest_ms = _tail(store, entry, manifest.log_start_offset, end)
        if tail.base > entry.base:
            kept.append(replace(entry, end=tail.base, max_timestamp_ms=latest_ms))
    start = manifest.log_start_offset
    bounded = replace(
        manifest,
        entries=tuple(kept),
        pages=(),
        remote_end=tail.base if tail else kept[-1].end if kept else min(end, start),
        leader_epochs=tuple(epoch for epoch in manifest.leader_epochs if epoch.start_offset < end),
    )
    view = replace(ManifestView.of(bounded, version), rewritten_seq=manifest.rewritten_seq)
    return BoundedViewRead(view, max(tail.end if tail else min(end, manifest.remote_end), start), covered, tail)


def _manifest(store: ObjectStore, command: ReadBoundedView) -> tuple[Manifest, Version]:
    if not command.key:
        stored = read_manifest(store, command.partition)
        return stored.manifest, stored.version

    def pinned(raw: bytes) -> Manifest:
        if hashlib.sha256(raw).hexdigest() != command.sha256:
            raise Corrupt(
                f"{command.partition}: {command.key} is not the manifest that was pinned: its SHA-256 differs"
            )
        return from_bytes(raw, command.key)

    return get_checked(store, command.key, pinned)


def _end(store: ObjectStore, manifest: Manifest, command: ReadBoundedView) -> tuple[int, bool]:
    """Where the view ends, and whether the archive holds something at or beyond that."""
    if command.timestamp_ms is None:
        return command.end_offset, command.end_offset <= manifest.remote_end
    found = offset_at(store, manifest, command.timestamp_ms)
    return (manifest.remote_end, False) if found is None else (found, True)


def _tail(store: ObjectStore, entry: Entry, start: int, end: int) -> tuple[Tail, int]:
    """The tail of a view ``[start, end)`` that ends inside ``entry``, and the latest time of the chunks before it."""
    footer = read_object_footer(store, entry.key)
    chunks = footer.chunks
    assert chunks is not None, "read_object_footer always reads the chunk table"
    count = chunks.find_offset(end)
    base = max(chunks.first_offset(count), entry.base) if count else entry.base
    data = below(read_chunk(store, entry.key, chunks[count]), end) if base < end else b""
    aborted = aborted_from_bytes(read_blob(store, entry.key, footer, "aborted")) if entry.aborted_count else ()
    latest = max((chunks[number].max_timestamp_ms for number in range(count)), default=-1)
    batches = [(header.next_offset, position) for position, header in iter_headers(data)]
    ends = array("q", (after for after, _ in batches))
    positions = array("q", (*(position for _, position in batches), len(data)))
    tail_end = max(ends, default=base)
    overlapping = tuple(one for one in aborted if one.first_offset < tail_end and one.last_offset >= base)
    columns = ends.tobytes(), positions.tobytes()
    return Tail(entry.key, count, base, tail_end, data, *columns, overlapping, *_latest(data, start)), latest


def below(data: bytes, end: int) -> bytes:
    """The batches of ``data`` without any record from offset ``end`` on. Raises `Corrupt`."""
    return b"".join(_batches_below(data, end))


def _batches_below(data: bytes, end: int) -> Iterator[bytes]:
    for position, header in iter_headers(data):
        if header.base_offset >= end:
            return
        if header.next_offset <= end:
            yield data[position : position + header.size_bytes]
        else:
            yield from _cut(data, position, header, end)


def _cut(data: bytes, position: int, header: BatchHeader, end: int) -> Iterator[bytes]:
    """The batch at ``position`` up to ``end``, as its producer would have made it."""
    records = [record for record in iter_records(data, position) if record.offset < end]
    if not records:
        return
    batch = build_batch(
        records,
        codec=header.codec,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        log_append_time_ms=header.max_timestamp if header.is_log_append_time else None,
    )
    # A record that was compacted away may have been the last one: readers go on behind it all the same.
    _U32.pack_into(batch, _LAST_OFFSET_DELTA_AT, end - 1 - records[0].offset)
    _U32.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    yield bytes(batch)


class _Latest(NamedTuple):
    """The first record with the largest time of those that are not deleted."""

    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


def _latest(data: bytes, start: int) -> _Latest:
    best = _Latest()
    for position, header in iter_headers(data):
        if header.max_timestamp <= best.timestamp_ms:
            continue
        try:
            for record in iter_records(data, position):
                if record.timestamp_ms > best.timestamp_ms and record.offset >= start:
                    best = _Latest(record.timestamp_ms, record.offset, header.partition_leader_epoch)
        except Corrupt:  # its producer sent it like that: what its header says is all that is known
            at = _Latest(header.max_timestamp, max(header.base_offset, start), header.partition_leader_epoch)
            best = max(best, at, key=lambda one: one.timestamp_ms)
    return best
