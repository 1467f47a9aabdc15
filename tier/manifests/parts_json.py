"""JSON fields of a manifest's trash, pages, jobs, pins and history (``docs/format/bucket.md``, section 3).

Every object of ours keeps the fields that we do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stratalog.tier.documents.unknown_fields import integer, keep_unknown, restore_unknown, text
from stratalog.tier.manifests.parts import HistoryRef, Job, PageRef, Pin, Totals, TrashEntry
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import uuid_parse, uuid_text

__all__ = [
    "history_from_fields",
    "history_to_fields",
    "job_from_fields",
    "job_to_fields",
    "page_from_fields",
    "page_to_fields",
    "pin_from_fields",
    "pin_to_fields",
    "trash_from_fields",
    "trash_to_fields",
]

_TRASH: Final = frozenset({"loc", "size", "epoch", "seq", "reason", "since_ts", "kind", "dead", "max_ts"})
_PAGE: Final = frozenset(
    {
        "loc", "first", "end", "seq", "entries", "dead", "start", "size", "crc32c", "segments", "bytes", "records",
        "min_ts", "max_ts", "aborted", "epoch", "front_ts",
    }
)  # fmt: skip
_JOB: Final = frozenset({"uuid", "kind", "listed_ts", "expires_ts", "inputs"})
_PIN: Final = frozenset({"cut", "created_ts", "remote_end", "log_start_offset", "seq"})
_HISTORY: Final = frozenset({"loc", "seq", "sha256", "start"})


def _loc(key: str, folder: str) -> str:
    """The key relative to the partition's folder, or with a slash in front relative to the archive's prefix."""
    return key.removeprefix(folder) if key.startswith(folder) else "/" + key


def _key(fields: Mapping[str, Any], folder: str) -> str:
    loc = text(fields, "loc")
    return loc[1:] if loc.startswith("/") else folder + loc


def trash_to_fields(item: TrashEntry, folder: str) -> dict[str, Any]:
    """JSON fields; ``folder`` is the partition's prefix."""
    fields = {
        "loc": _loc(item.key, folder),
        "size": item.size_bytes,
        "epoch": item.epoch,
        "seq": item.seq,
        "reason": item.reason,
        "since_ts": item.since_ms,
    }
    if item.kind:
        fields["kind"] = item.kind
    if item.dead_count:
        fields["dead"] = item.dead_count
    if item.max_timestamp_ms >= 0:
        fields["max_ts"] = item.max_timestamp_ms
    return restore_unknown(fields, item.unknown)


def trash_from_fields(fields: Mapping[str, Any], folder: str) -> TrashEntry:
    """The inverse of :func:`trash_to_fields`. Raises `Corrupt`."""
    return TrashEntry(
        key=_key(fields, folder),
        size_bytes=integer(fields, "size"),
        epoch=integer(fields, "epoch"),
        seq=integer(fields, "seq"),
        reason=text(fields, "reason", ""),
        since_ms=integer(fields, "since_ts", -1),
        kind=text(fields, "kind", ""),
        dead_count=integer(fields, "dead", 0),
        max_timestamp_ms=integer(fields, "max_ts", -1),
        unknown=keep_unknown(fields, _TRASH),
    )


def page_to_fields(page: PageRef, folder: str) -> dict[str, Any]:
    """JSON fields; ``dead`` and ``start`` only once entries have gone."""
    fields: dict[str, Any] = {
        "loc": _loc(page.key, folder),
        "first": page.first,
        "end": page.end,
        "seq": page.seq,
        "entries": page.entry_count,
        "size": page.size_bytes,
        "crc32c": page.crc32c,
        **dict(zip(("segments", "bytes", "records"), page.totals, strict=True)),
        "min_ts": page.min_timestamp_ms,
        "max_ts": page.max_timestamp_ms,
        "aborted": page.aborted_count,
        "epoch": page.epoch_max,
        "front_ts": page.front_timestamp_ms,
    }
    if page.dead_count:
        fields |= {"dead": page.dead_count, "start": page.live_first}
    return restore_unknown(fields, page.unknown)


def page_from_fields(fields: Mapping[str, Any], folder: str) -> PageRef:
    """The inverse of :func:`page_to_fields`. Raises `Corrupt`."""
    first = integer(fields, "first")
    page = PageRef(
        key=_key(fields, folder),
        first=first,
        end=integer(fields, "end"),
        seq=integer(fields, "seq"),
        entry_count=integer(fields, "entries"),
        size_bytes=integer(fields, "size"),
        crc32c=integer(fields, "crc32c"),
        totals=Totals(integer(fields, "segments"), integer(fields, "bytes"), integer(fields, "records")),
        min_timestamp_ms=integer(fields, "min_ts"),
        max_timestamp_ms=integer(fields, "max_ts"),
        aborted_count=integer(fields, "aborted"),
        epoch_max=integer(fields, "epoch"),
        live_first=integer(fields, "start", first),
        front_timestamp_ms=integer(fields, "front_ts"),
        dead_count=integer(fields, "dead", 0),
        unknown=keep_unknown(fields, _PAGE),
    )
    if not 0 <= page.first <= page.live_first < page.end or not 0 <= page.dead_count < page.entry_count:
        raise Corrupt(
            f"the page {page.key} claims offsets [{page.first}, {page.end}) from {page.live_first} on, and "
            f"{page.entry_count} entries, and {page.dead_count} of them are gone"
        )
    return page


def job_to_fields(job: Job) -> dict[str, Any]:
    """JSON fields."""
    fields = {
        "uuid": uuid_text(job.uuid),
        "kind": job.kind,
        "listed_ts": job.listed_ms,
        "expires_ts": job.expires_ms,
        "inputs": [uuid_text(uuid) for uuid in job.inputs],
    }
    return restore_unknown(fields, job.unknown)


def job_from_fields(fields: Mapping[str, Any]) -> Job:
    """The inverse of :func:`job_to_fields`. Raises `Corrupt`, `Invalid`."""
    return Job(
        uuid=uuid_parse(text(fields, "uuid")),
        kind=text(fields, "kind"),
        listed_ms=integer(fields, "listed_ts"),
        expires_ms=integer(fields, "expires_ts"),
        inputs=tuple(uuid_parse(uuid) for uuid in fields["inputs"]),
        unknown=keep_unknown(fields, _JOB),
    )


def pin_to_fields(pin: Pin) -> dict[str, Any]:
    """JSON fields."""
    fields = {
        "cut": pin.cut_id,
        "created_ts": pin.created_ms,
        "remote_end": pin.remote_end,
        "log_start_offset": pin.log_start_offset,
    }
    if pin.seq >= 0:
        fields["seq"] = pin.seq
    return restore_unknown(fields, pin.unknown)


def pin_from_fields(fields: Mapping[str, Any]) -> Pin:
    """The inverse of :func:`pin_to_fields`. Raises `Corrupt`."""
    return Pin(
        cut_id=text(fields, "cut"),
        created_ms=integer(fields, "created_ts"),
        remote_end=integer(fields, "remote_end"),
        log_start_offset=integer(fields, "log_start_offset"),
        seq=integer(fields, "seq", -1),
        unknown=keep_unknown(fields, _PIN),
    )


def history_to_fields(history: HistoryRef, folder: str) -> dict[str, Any]:
    """JSON fields; ``start`` only once copies have been removed."""
    fields = {"loc": _loc(history.key, folder), "seq": history.seq, "sha256": history.sha256}
    if history.start:
        fields["start"] = history.start
    return restore_unknown(fields, history.unknown)


def history_from_fields(fields: Mapping[str, Any], folder: str) -> HistoryRef:
    """The inverse of :func:`history_to_fields`. Raises `Corrupt`."""
    return HistoryRef(
        seq=integer(fields, "seq"),
        key=_key(fields, folder),
        sha256=text(fields, "sha256"),
        start=integer(fields, "start", 0),
        unknown=keep_unknown(fields, _HISTORY),
    )
