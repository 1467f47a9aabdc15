"""Describes ``.seg`` objects and manifests as plain dictionaries, for people and for ``--json``.

Reads through a callable, so that a local file, a downloaded object and one in a bucket are shown alike.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from crc32c import crc32c

from stratalog.tier.manifests.entry import entry_to_fields
from stratalog.tier.manifests.json import from_bytes, predecessor_hash
from stratalog.tier.manifests.parts_json import history_to_fields, job_to_fields, page_to_fields, pin_to_fields
from stratalog.tier.objects.footer import SUFFIX_BYTES, TRAILER_BYTES, Footer, read_footer, read_trailer
from stratalog.tier.objects.segment_blobs import OFFSET_ENTRY, TIME_ENTRY, aborted_from_bytes, epochs_from_bytes
from stratalog.tier.objects.segment_scan import SegmentScan
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import uuid_text

__all__ = ["ReadAt", "dump_manifest", "dump_segment"]

ReadAt = Callable[[int, int], bytes]
"""``read(position, length)`` gives exactly these bytes of the object."""

_VERIFY_BYTES: Final = 64 * 1024 * 1024


def dump_segment(read: ReadAt, total_bytes: int, *, verify: bool = False) -> dict[str, Any]:
    """Everything that the tail of an object of ``total_bytes`` says, and with ``verify`` what is wrong with its data.

    ``problems`` lists every part, chunk or batch that fails a check; an object without problems has an empty list.
    Raises `Corrupt` if trailer or footer cannot be read at all.
    """
    suffix_bytes = min(SUFFIX_BYTES, total_bytes)
    suffix = read(total_bytes - suffix_bytes, suffix_bytes)
    trailer = read_trailer(suffix, total_bytes)
    if total_bytes - trailer.footer_position > suffix_bytes:
        suffix = read(trailer.footer_position, total_bytes - trailer.footer_position)
    footer = read_footer(suffix, total_bytes)
    if footer.chunks is None and "chunks" in footer.blobs:
        start = footer.blobs["chunks"].position
        footer = read_footer(read(start, total_bytes - start), total_bytes)
    problems: list[str] = []
    parts = _read_parts(read, footer, problems)
    entry = entry_to_fields(footer.entry, footer.partition.prefix)
    if verify:
        problems += _verify_data(read, footer)
    return {
        "topic": footer.partition.topic,
        "topic_id": uuid_text(footer.partition.topic_id),
        "partition": footer.partition.partition,
        "cluster_id": footer.cluster_id,
        "writer": footer.writer,
        "size_bytes": total_bytes,
        "trailer": {**trailer._asdict(), "magic": trailer.magic.decode("ascii"), "length": TRAILER_BYTES},
        "entry": entry,
        "parts": {name: blob._asdict() for name, blob in footer.blobs.items()},
        "chunks": [chunk._asdict() for chunk in footer.chunks or ()],
        "leader_epochs": [epoch._asdict() for epoch in epochs_from_bytes(parts["leader_epochs"])]
        if "leader_epochs" in parts
        else [],
        "aborted": [row._asdict() for row in aborted_from_bytes(parts.get("aborted", b""))],
        "offset_index_entries": len(parts.get("offset_index", b"")) // OFFSET_ENTRY.size,
        "time_index_entries": len(parts.get("time_index", b"")) // TIME_ENTRY.size,
        "producer_snapshot_bytes": len(parts.get("producer_snapshot", b"")),
        "problems": problems,
    }


def _read_parts(read: ReadAt, footer: Footer, problems: list[str]) -> dict[str, bytes]:
    parts = {}
    for name, blob in footer.blobs.items():
        data = read(blob.position, blob.length) if blob.length else b""
        try:
            blob.check(name, data)
        except Corrupt as error:
            problems.append(str(error))
        else:
            parts[name] = data
    return parts


def _verify_data(read: ReadAt, footer: Footer) -> list[str]:
    """Check every chunk by its CRC-32C and every batch as before an upload."""
    entry = footer.entry
    scan = SegmentScan(entry.base, entry.end, compacted=entry.compacted, chunk_bytes=sys.maxsize)
    problems = []
    for chunk in footer.chunks or ():
        data = read(chunk.position, chunk.length)
        if crc32c(data) != chunk.crc32c:
            problems.append(f"the chunk of offset {chunk.first_offset} at position {chunk.position} fails its CRC-32C")
        at = 0
        try:
            while at < len(data):
                at += scan.add(data, at)
        except Corrupt as error:
            problems.append(f"position {chunk.position + at}: {error}")
            return problems
    try:
        scan.finish()
    except Corrupt as error:
        problems.append(str(error))
    if (scan.record_count, scan.batch_count) != (entry.record_count, entry.batch_count):
        problems.append(f"{scan.batch_count} batches with {scan.record_count} records differ from the footer's")
    if scan.data_crc32c != entry.data_crc32c:
        problems.append(f"the data has CRC-32C {scan.data_crc32c:08x}, the footer says {entry.data_crc32c:08x}")
    return problems


def dump_manifest(raw: bytes, key: str = "manifest.json") -> dict[str, Any]:
    """A manifest's state, its inline entries as their JSON fields with whole keys, references to pages likewise.

    Raises `Corrupt`, `NewerManifest`.
    """
    manifest = from_bytes(raw, key)
    folder = manifest.partition.prefix
    return {
        "topic": manifest.partition.topic,
        "topic_id": uuid_text(manifest.partition.topic_id),
        "partition": manifest.partition.partition,
        "cluster_id": manifest.cluster_id,
        "seq": manifest.seq,
        "sha256": predecessor_hash(raw),
        "prev_sha256": manifest.prev_sha256,
        "writer": manifest.writer,
        "claim": {**manifest.claimant._asdict(), "uuid": uuid_text(manifest.claimant.uuid)},
        "log_start_offset": manifest.log_start_offset,
        "remote_start": manifest.remote_start,
        "remote_end": manifest.remote_end,
        "high_watermark": manifest.high_watermark,
        "last_stable_offset": manifest.last_stable_offset,
        "totals": manifest.totals._asdict(),
        "leader_epochs": [epoch._asdict() for epoch in manifest.leader_epochs],
        "pages": [{**page_to_fields(page, folder), "key": page.key} for page in manifest.pages],
        "entries": [{**entry_to_fields(entry, folder), "key": entry.key} for entry in manifest.entries],
        "jobs": [job_to_fields(job) for job in manifest.jobs],
        "pins": [pin_to_fields(pin) for pin in manifest.pins],
        "history": manifest.history and history_to_fields(manifest.history, folder),
        "deleted_ts": manifest.deleted_ms,
        "trash": [
            {"key": t.key, "size": t.size_bytes, "since_ts": t.since_ms, "reason": t.reason} for t in manifest.trash
        ],
        "commits": [note._asdict() for note in manifest.commits],
    }
