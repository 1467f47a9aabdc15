"""The manifest's bytes: JSON, one object (``docs/format/bucket.md``). Fields we do not know are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

from stratalog.tier.documents.json import parse_json
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.documents.unknown_fields import (
    canonical_json,
    integer,
    keep_unknown,
    restore_unknown,
    text,
    topic_name,
)
from stratalog.tier.manifests.entry import LeaderEpoch, entry_from_fields, entry_to_fields
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.parts import PAGE_KIND, Claimant, CommitNote, Totals
from stratalog.tier.manifests.parts_json import (
    history_from_fields,
    history_to_fields,
    job_from_fields,
    job_to_fields,
    page_from_fields,
    page_to_fields,
    pin_from_fields,
    pin_to_fields,
    trash_from_fields,
    trash_to_fields,
)
from stratalog.tier.stores.source import crc32c_of
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import uuid_parse, uuid_text

__all__ = ["READER_VERSION", "NewerManifest", "from_bytes", "predecessor_hash", "to_bytes"]

FORMAT_NAME: Final = "stratalog-manifest"
READER_VERSION: Final = 2
"""A manifest whose ``min_reader_version`` is above this cannot be read here."""
_INLINE_VERSION: Final = 1
"""Features that a reader must know even if it finds neither pages nor jobs nor pins."""

_WRITER: Final = frozenset({"broker_id", "leader_epoch", "version", "ts"})
_TOTALS: Final = frozenset({"segments", "bytes", "records"})
_CHECKSUM: Final = b',"crc32c":'
"""The text that follows the bytes that the checksum covers; the number and a closing brace end the manifest."""
_KNOWN: Final = frozenset(
    {
        "format", "version", "min_reader_version", "cluster_id", "topic", "topic_id", "partition", "seq",
        "prev_sha256", "incarnation", "claim", "writer", "log_start_offset", "remote_end", "high_watermark",
        "last_stable_offset", "leader_epochs", "totals", "entries", "trash", "commits", "archive_clean_offset", "crc32c",
        "pages", "jobs", "pins", "history", "rewritten_seq", "shortened_seq", "deleted_ts",
    }
)  # fmt: skip


class NewerManifest(Invalid):
    """The manifest was written by a newer release that older readers must not guess at: upgrade."""


def predecessor_hash(data: bytes) -> str:
    """The hash that the successor of the manifest ``data`` holds in ``prev_sha256``."""
    return hashlib.sha256(data).hexdigest()


def to_bytes(manifest: Manifest) -> bytes:
    """The manifest as stored."""
    folder = manifest.partition.prefix
    held = manifest.claimant
    writer = {
        "broker_id": held.broker_id,
        "leader_epoch": held.leader_epoch,
        "version": manifest.writer,
        "ts": manifest.claimed_ms,
    }
    totals = dict(zip(("segments", "bytes", "records"), manifest.totals, strict=True))
    fields: dict[str, Any] = {
        "format": FORMAT_NAME,
        "version": manifest.version,
        "min_reader_version": _version_needed(manifest),
        "cluster_id": manifest.cluster_id,
        "topic": manifest.partition.topic,
        "topic_id": uuid_text(manifest.partition.topic_id),
        "partition": manifest.partition.partition,
        "seq": manifest.seq,
        "prev_sha256": manifest.prev_sha256,
        "incarnation": held.incarnation,
        "claim": uuid_text(held.uuid),
        "writer": restore_unknown(writer, manifest.unknown_writer),
        "log_start_offset": manifest.log_start_offset,
        "remote_end": manifest.remote_end,
        "high_watermark": manifest.high_watermark,
        "last_stable_offset": manifest.last_stable_offset,
        "leader_epochs": [list(epoch) for epoch in manifest.leader_epochs],
        "totals": restore_unknown(totals, manifest.unknown_totals),
        "archive_clean_offset": manifest.archive_clean_offset,
        "entries": [entry_to_fields(entry, folder) for entry in manifest.entries],
        "trash": [trash_to_fields(item, folder) for item in manifest.trash],
        "commits": [list(note) for note in manifest.commits],
        "pages": [page_to_fields(page, folder) for page in manifest.pages],
        "jobs": [job_to_fields(job) for job in manifest.jobs],
        "pins": [pin_to_fields(pin) for pin in manifest.pins],
    }
    if manifest.history is not None:
        fields["history"] = history_to_fields(manifest.history, folder)
    if manifest.rewritten_seq:
        fields["rewritten_seq"] = manifest.rewritten_seq
    if manifest.shortened_seq:
        fields["shortened_seq"] = manifest.shortened_seq
    if manifest.deleted_ms >= 0:
        fields["deleted_ts"] = manifest.deleted_ms
    body = canonical_json(restore_unknown(fields, manifest.unknown)).encode("ascii").removesuffix(b"}")
    return b"%s%s%d}" % (body, _CHECKSUM, crc32c_of(body))


def from_bytes(data: bytes, key: str, *, contiguous: bool = True) -> Manifest:
    """The inverse of :func:`to_bytes`; ``key`` is only for messages.

    Raises `NewerManifest` if this release is too old for it, and `Corrupt` if it is damaged: entries that overlap,
    leave a hole or do not end at ``remote_end`` (unless ``contiguous`` is off, for those who look for damage), or
    bytes that do not match the checksum count as damage too.
    """
    try:
        fields = parse_json(data, key)
        if fields["format"] != FORMAT_NAME:
            raise Corrupt(f"the format is {fields['format']!r}, {FORMAT_NAME!r} is expected")
        _check_checksum(data, fields)  # first: a flipped bit of the version is damage, not age
        needed = integer(fields, "min_reader_version")
        if needed > READER_VERSION:
            raise NewerManifest(
                f"{key}: this manifest needs a reader of version {needed}, this one is of version {READER_VERSION}: "
                "upgrade"
            )
        manifest = _parse(fields)
    except NewerManifest:
        raise
    except (Corrupt, Invalid, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise Corrupt(
            f"the manifest {key} is damaged: {error!r}. Restore it from a copy or from the objects"
        ) from error
    if contiguous:
        _check_contiguous(manifest, key)
    return manifest


def _check_checksum(data: bytes, fields: Mapping[str, Any]) -> None:
    """A manifest without the field is taken as it is: an operator edited it, and the store's own checks must do."""
    if "crc32c" in fields:
        actual = crc32c_of(data.rpartition(_CHECKSUM)[0])
        if actual != fields["crc32c"]:
            raise Corrupt(
                f"crc32c is {fields['crc32c']!r}, the bytes before it give {actual}; to edit a manifest, remove that field"
            )


def _parse(fields: Mapping[str, Any]) -> Manifest:
    partition = PartitionId(topic_name(fields), uuid_parse(text(fields, "topic_id")), integer(fields, "partition"))
    folder = partition.prefix
    writer = fields["writer"]
    totals = fields["totals"]
    return Manifest(
        partition=partition,
        cluster_id=text(fields, "cluster_id", ""),
        seq=integer(fields, "seq"),
        prev_sha256=text(fields, "prev_sha256", ""),
        claimant=Claimant(
            integer(fields, "incarnation"),
            integer(writer, "leader_epoch"),
            uuid_parse(text(fields, "claim")),
            integer(writer, "broker_id"),
        ),
        claimed_ms=integer(writer, "ts", -1),
        writer=text(writer, "version", ""),
        log_start_offset=integer(fields, "log_start_offset"),
        remote_end=integer(fields, "remote_end"),
        high_watermark=integer(fields, "high_watermark", -1),
        last_stable_offset=integer(fields, "last_stable_offset", -1),
        leader_epochs=tuple(LeaderEpoch(int(epoch), int(start)) for epoch, start in fields["leader_epochs"]),
        totals=Totals(integer(totals, "segments"), integer(totals, "bytes"), integer(totals, "records")),
        entries=tuple(entry_from_fields(entry, folder) for entry in fields["entries"]),
        trash=tuple(trash_from_fields(item, folder) for item in fields.get("trash", ())),
        commits=tuple(CommitNote(int(n[0]), str(n[1]), int(n[2]), int(n[3]), int(n[4])) for n in fields["commits"]),
        pages=tuple(page_from_fields(page, folder) for page in fields.get("pages", ())),
        jobs=tuple(job_from_fields(job) for job in fields.get("jobs", ())),
        pins=tuple(pin_from_fields(pin) for pin in fields.get("pins", ())),
        history=history_from_fields(fields["history"], folder) if "history" in fields else None,
        archive_clean_offset=integer(fields, "archive_clean_offset", 0),
        rewritten_seq=integer(fields, "rewritten_seq", 0),
        shortened_seq=integer(fields, "shortened_seq", 0),
        deleted_ms=integer(fields, "deleted_ts", -1),
        version=integer(fields, "version"),
        unknown=keep_unknown(fields, _KNOWN),
        unknown_writer=keep_unknown(writer, _WRITER),
        unknown_totals=keep_unknown(totals, _TOTALS),
    )


def _version_needed(manifest: Manifest) -> int:
    """An older reader would miss what is in pages, and an older writer would overlook jobs, pins and trashed pages."""
    newer = manifest.pages or manifest.jobs or manifest.pins or any(item.kind == PAGE_KIND for item in manifest.trash)
    return READER_VERSION if newer else _INLINE_VERSION


def _check_contiguous(manifest: Manifest, key: str) -> None:
    at = manifest.remote_start
    for start, end in chain(
        ((page.live_first, page.end) for page in manifest.pages), ((one.base, one.end) for one in manifest.entries)
    ):
        if start != at:
            raise Corrupt(f"the manifest {key} is damaged: an entry or page begins at offset {start}, {at} is due")
        at = end
    if at != manifest.remote_end:
        raise Corrupt(f"the manifest {key} is damaged: the entries end at {at}, remote_end is {manifest.remote_end}")
