"""The second phase of removal: what may leave the trash now, and the changes that make and empty it. Pure.

An object is removed in two steps. A change of the manifest moves it from the live entries to the trash; a later change
dates it. It leaves the bucket only when all of this holds, asked in this order (rule 9 of ``docs/safety.md``):

1. the manifest shows it dated, and older than the grace (`leaving`);
2. no pin of a cut and no listed job holds it (`leaving`);
3. if retention put it there, retention as configured *now* would put it there too (`leaving`, rule 6);
4. the leases, listed after that manifest was read, hold it not (`unleased`).

No object ever returns from the trash to the live entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from stratalog.tier.documents.keys import HistoryKey, PageKey, SegmentKey, TopicKey, parse_key
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.jobs import MERGE_KIND, end_job
from stratalog.tier.manifests.leases import SKEW_MS, Lease, protects
from stratalog.tier.manifests.manifest import Manifest, check_claim, set_log_start, successor
from stratalog.tier.manifests.parts import LOG_START_MOVED, Claimant, PageRef, Totals, TrashEntry
from stratalog.tier.manifests.runs import RUN_KINDS
from stratalog.wire.errors import Invalid

__all__ = [
    "DELETED_RECORDS",
    "LOG_START_MOVED",
    "RETENTION",
    "TIERING_OFF",
    "TOPIC_DELETED",
    "Retention",
    "begin_again",
    "date_trash",
    "end_expired_jobs",
    "forget",
    "leaving",
    "ripe_ms",
    "still_expired",
    "trash_archive",
    "unleased",
]

RETENTION: Final = "retention"
"""The reason of what retention moved below the log start: judged again before its object goes."""
DELETED_RECORDS: Final = "deleted records"
TIERING_OFF: Final = "tiering switched off"
TOPIC_DELETED: Final = "topic deleted"


class Retention(Struct, frozen=True):
    """The topic's retention as configured now; negative limits are none. ``live_bytes`` is what readers may still read."""

    retention_ms: int
    retention_bytes: int
    live_bytes: int


def leaving(manifest: Manifest, *, now_ms: int, grace_ms: int, retention: Retention | None) -> tuple[TrashEntry, ...]:
    """The objects that may go as far as the manifest tells, oldest first. The leases have to be listed after it was read.

    ``retention`` is None where the topic is gone or archived no more: then there is nothing to judge by.
    """
    live = {entry.key for entry in manifest.entries} | {page.key for page in manifest.pages}
    return tuple(
        item
        for item in manifest.trash
        if 0 <= item.since_ms < now_ms - grace_ms
        and item.key not in live
        and not _pinned(manifest, item)
        and not _in_job(manifest, item)
        and (retention is None or still_expired(item, retention, now_ms))
    )


def unleased(items: Iterable[TrashEntry], leases: Collection[Lease], now_ms: int) -> tuple[TrashEntry, ...]:
    """Those of ``items`` that no lease protects."""
    return tuple(item for item in items if not any(protects(lease, item.since_ms, now_ms) for lease in leases))


def still_expired(item: TrashEntry, retention: Retention, now_ms: int) -> bool:
    """Whether what retention once removed would be removed today, too (rule 6); true for all other reasons.

    A limit that was raised keeps the object where it is, in the trash, until it is reached again.
    """
    if item.reason not in {RETENTION, LOG_START_MOVED}:
        return True
    newest_ms = item.max_timestamp_ms if item.max_timestamp_ms >= 0 else item.since_ms
    if retention.retention_ms >= 0 and newest_ms < now_ms - retention.retention_ms:
        return True
    return 0 <= retention.retention_bytes <= retention.live_bytes


def ripe_ms(manifest: Manifest, grace_ms: int) -> int | None:
    """When the first dated item of the trash has been there for the grace; None if there is none."""
    return min((item.since_ms + grace_ms for item in manifest.trash if item.since_ms >= 0), default=None)


def date_trash(manifest: Manifest, claimant: Claimant, *, now_ms: int) -> Manifest:
    """Date what earlier changes moved to the trash; nothing to do if all of it is dated.

    Every change does that; this one is for a partition where nothing else happens. Raises `ManifestFenced`,
    `NotClaimed`.
    """
    check_claim(manifest, claimant)
    if all(item.since_ms >= 0 for item in manifest.trash):
        return manifest
    return successor(manifest, "date trash", now_ms)


def forget(manifest: Manifest, claimant: Claimant, keys: Collection[str], *, now_ms: int) -> Manifest:
    """Strike items off whose objects are gone; nothing to do if none of ``keys`` is in the trash.

    Raises `ManifestFenced`, `NotClaimed`.
    """
    check_claim(manifest, claimant)
    kept = tuple(item for item in manifest.trash if item.key not in keys)
    if len(kept) == len(manifest.trash):
        return manifest
    return successor(replace(manifest, trash=kept), "empty trash", now_ms)


def end_expired_jobs(manifest: Manifest, *, now_ms: int) -> Manifest:
    """Strike off jobs that ran out and the skew of clocks with them: their worker has given up."""
    for job in manifest.jobs:
        if job.expires_ms + SKEW_MS < now_ms:
            return end_job(manifest, job.uuid, now_ms=now_ms)
    return manifest


def trash_archive(manifest: Manifest, claimant: Claimant, *, now_ms: int, reason: str) -> Manifest:
    """Move the whole archive to the trash and mark it as deleted; nothing to do if it is marked and empty already.

    All entries go, also those below the log start. That stays, whatever the local log does with its own; the archive then
    ends where it begins.
    With the ``reason`` `TIERING_OFF` merges are struck off: no later merge would, and none can be swapped in any more. A
    deleted topic's archive waits for them instead, because an object that came after its manifest would stay for good.
    Only a claim above the last one or equal to it comes here: what the last leader still has under way is refused.
    Raises `ManifestFenced`, `NotClaimed`.
    """
    check_claim(manifest, claimant)
    live: list[PageRef | Entry] = [*manifest.pages, *manifest.entries]
    if manifest.deleted_ms >= 0 and not live:
        return manifest
    end = max(manifest.remote_end, live[-1].end if live else 0)
    emptied = set_log_start(manifest, claimant, end, now_ms=now_ms, reason=reason)
    if emptied is manifest:
        emptied = successor(manifest, "delete", now_ms)
    return replace(
        emptied,
        log_start_offset=manifest.log_start_offset,
        remote_end=manifest.log_start_offset,
        deleted_ms=manifest.deleted_ms if manifest.deleted_ms >= 0 else now_ms,
        rewritten_seq=emptied.seq,
        jobs=tuple(job for job in manifest.jobs if reason != TIERING_OFF or job.kind != MERGE_KIND),
    )


def begin_again(manifest: Manifest, claimant: Claimant, offset: int, *, now_ms: int) -> Manifest:
    """Archive from ``offset`` on again after `trash_archive`; nothing to do if the archive is not deleted.

    ``offset`` is the first batch border of the local log, at or below its log start. Objects in the trash stay there, and
    entries that the archive kept below its log start when it was marked follow them. Runs are struck off with their parts:
    they have looked at another archive. Raises `ManifestFenced`, `NotClaimed`, and `Invalid` if there are entries above the
    log start.
    """
    check_claim(manifest, claimant)
    if manifest.deleted_ms < 0:
        return manifest
    live: list[PageRef | Entry] = [*manifest.pages, *manifest.entries]
    if any(one.end > manifest.log_start_offset for one in live):
        raise Invalid(f"{manifest.partition}: the archive is marked as deleted but has live entries: verify it first")
    emptied = trash_archive(manifest, claimant, now_ms=now_ms, reason=TIERING_OFF)
    begun = successor(
        replace(
            manifest,
            pages=(),
            entries=(),
            totals=Totals(),
            deleted_ms=-1,
            log_start_offset=offset,
            remote_end=offset,
            archive_clean_offset=0,
            jobs=tuple(job for job in manifest.jobs if job.kind not in RUN_KINDS),
        ),
        "begin again",
        now_ms,
    )
    left = emptied.trash[len(manifest.trash) :]
    return replace(begun, trash=begun.trash + left, rewritten_seq=begun.seq, shortened_seq=begun.seq)


def _pinned(manifest: Manifest, item: TrashEntry) -> bool:
    """A pin holds what it overlaps and what went after it: its cut may name any object of these offsets."""
    pins = [pin for pin in manifest.pins if item.seq > pin.seq]
    if not pins:
        return False
    span = _span(item.key)
    return span is None or any(span[0] < pin.remote_end and span[1] > pin.log_start_offset for pin in pins)


def _in_job(manifest: Manifest, item: TrashEntry) -> bool:
    """A job holds its inputs, any page that may name them, and, if it names no inputs, everything."""
    if not manifest.jobs:
        return False
    key = _parsed(item.key)
    if not isinstance(key, SegmentKey):
        return True
    return any(not job.inputs or key.uuid in job.inputs or key.uuid == job.uuid for job in manifest.jobs)


def _span(key: str) -> Sequence[int] | None:
    """The offsets that an object or page covers; None for a key that does not tell."""
    parsed = _parsed(key)
    if isinstance(parsed, SegmentKey):
        return parsed.base, parsed.end
    return (parsed.first, parsed.last) if isinstance(parsed, PageKey) else None


def _parsed(key: str) -> TopicKey | SegmentKey | PageKey | HistoryKey | None:
    try:
        return parse_key(key)
    except Invalid:
        return None
