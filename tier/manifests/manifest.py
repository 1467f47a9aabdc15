"""The manifest of one partition: what the archive holds, who may write it, and every way in which it may change.

Pure: each transition takes a manifest and gives its successor, the same object when there is nothing to do, or an
error. `tier.work.work` replaces the stored manifest by compare-and-swap; the model checker in ``tests/model/test_protocol.py``
steps these very functions. Rules: ``docs/safety.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.documents.unknown_fields import UnknownFields
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.parts import (
    LOG_START_MOVED,
    NOBODY,
    PAGE_KIND,
    Claimant,
    CommitNote,
    HistoryRef,
    Job,
    PageRef,
    Pin,
    Totals,
    TrashEntry,
    Uploaded,
    totals_of,
    totals_of_pages,
    trashed_entry,
)
from stratalog.wire.errors import Corrupt, Fenced, Invalid

__all__ = [
    "COMMITS_KEPT",
    "COPY",
    "ENTRIES_MAX",
    "LOG_START",
    "NOBODY",
    "REPAIR",
    "REWIND",
    "ArchiveDeleted",
    "Claimant",
    "CommitNote",
    "ForeignUpload",
    "HistoryRef",
    "Job",
    "Manifest",
    "ManifestFenced",
    "ManifestFull",
    "ManifestLost",
    "NotAtRemoteEnd",
    "NotClaimed",
    "PageRef",
    "Pin",
    "Totals",
    "TrashEntry",
    "Uploaded",
    "check_claim",
    "claim",
    "commit",
    "mark_deleted",
    "page_at",
    "set_log_start",
    "successor",
    "take_over",
    "trashed_entry",
]

ENTRIES_MAX: Final = 8192
"""Entries that a manifest may hold inline: far beyond the number from which on older ones are spilled to pages."""
LOG_START: Final = "log start"
"""The kind of a change that moves the log start, and what lies below it to the trash."""
REPAIR: Final = "repair"
"""The kind of change by which an archive may end earlier than before."""
REWIND: Final = "rewind"
"""The kind of change by which an archive goes back to a cut."""
COPY: Final = "copy"
"""The kind of change that does nothing but name a copy of the manifest before it."""
COMMITS_KEPT: Final = 32
"""The latest changes that the manifest remembers."""


class ManifestFenced(Fenced):
    """Another writer has claimed the manifest with an equal or higher claim: stop writing to this archive."""


class NotClaimed(Invalid):
    """A change was tried under a claim that the manifest does not carry yet: claim first (rule 1)."""


class ManifestLost(NotClaimed):
    """The manifest is gone, or ends before what is known to be archived: write nothing until the right one is back."""


class NotAtRemoteEnd(Invalid):
    """A range does not begin where the archive ends. ``remote_end`` says where the next one has to begin."""

    def __init__(self, partition: PartitionId, base: int, remote_end: int) -> None:
        super().__init__(partition, base, remote_end)
        self.partition = partition
        self.base = base
        self.remote_end = remote_end

    def __str__(self) -> str:
        return (
            f"{self.partition}: a range that begins at offset {self.base} cannot be committed, the archive ends at "
            f"{self.remote_end}: cut the next range there"
        )


class ForeignUpload(Invalid):
    """An object was uploaded under another claim than the one that commits it (rule 1)."""


class ArchiveDeleted(Invalid):
    """The archive is on its way out: its topic was deleted, or is archived no more."""


class ManifestFull(Invalid):
    """The manifest, or a page, holds as much as it may."""


class Manifest(Struct, frozen=True):
    """The state of one partition's archive.

    A partition without a manifest is ``Manifest(partition)``: number 0, without a claim. ``remote_end`` is the end
    of the last committed range; reading begins at ``log_start_offset``, which may lie inside the first entry.

    ``entries`` are the newest live ones; those before them are in ``pages``, oldest first
    (`tier.manifests.entries.iter_entries` reads both). ``rewritten_seq`` is the number of the latest change that
    replaced entries by others: a reader of an older manifest must read all entries again. ``shortened_seq`` is that of
    the latest change after which the archive may end earlier than before, as it was begun again, repaired or rewound.
    ``deleted_ms`` is when the topic was deleted, -1 if it lives.
    """

    partition: PartitionId
    cluster_id: str = ""
    seq: int = 0
    prev_sha256: str = ""
    claimant: Claimant = NOBODY
    claimed_ms: int = -1
    writer: str = ""
    log_start_offset: int = 0
    remote_end: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    leader_epochs: tuple[LeaderEpoch, ...] = ()
    totals: Totals = Totals()
    pages: tuple[PageRef, ...] = ()
    entries: tuple[Entry, ...] = ()
    trash: tuple[TrashEntry, ...] = ()
    jobs: tuple[Job, ...] = ()
    pins: tuple[Pin, ...] = ()
    history: HistoryRef | None = None
    commits: tuple[CommitNote, ...] = ()
    archive_clean_offset: int = 0
    rewritten_seq: int = 0
    shortened_seq: int = 0
    deleted_ms: int = -1
    version: int = 1
    unknown: UnknownFields = ()
    unknown_writer: UnknownFields = ()
    unknown_totals: UnknownFields = ()

    @property
    def remote_start(self) -> int:
        """The first offset of the first live entry; the remote end when there is none."""
        if self.pages:
            return self.pages[0].live_first
        return self.entries[0].base if self.entries else self.remote_end

    @property
    def oldest_timestamp_ms(self) -> int:
        """The largest timestamp of the first live entry, -1 when there is none."""
        if self.pages:
            return self.pages[0].front_timestamp_ms
        return self.entries[0].max_timestamp_ms if self.entries else -1

    @property
    def inline_start(self) -> int:
        """The first offset that is not in a page."""
        return self.entries[0].base if self.entries else self.remote_end


def claim(manifest: Manifest, claimant: Claimant, *, now_ms: int, start_offset: int = 0) -> Manifest:
    """Raise the claim to ``claimant`` (rule 1); nothing to do if it is there already.

    ``start_offset`` is where an archive that never held anything begins: a batch border of the local log. Raises
    `ManifestFenced` if the manifest carries a higher claim, or an equal one with another uuid, and for an incarnation
    below 0, that of a cluster restored without takeover: it owns nothing.
    """
    if claimant.incarnation < 0:
        raise ManifestFenced(
            f"{manifest.partition}: this cluster was restored without taking its archive over: it reads it and writes "
            "nothing to it. Restore it with --takeover if no other cluster writes there"
        )
    if manifest.claimant.rank > claimant.rank:
        raise _fenced(manifest, claimant)
    if manifest.claimant.rank == claimant.rank:
        if manifest.claimant.uuid != claimant.uuid:
            raise _fenced(manifest, claimant)
        return manifest
    claimed = replace(manifest, claimant=claimant, claimed_ms=now_ms)
    if not manifest.seq:
        claimed = replace(claimed, log_start_offset=start_offset, remote_end=start_offset)
    return successor(claimed, "claim", now_ms)


def take_over(manifest: Manifest, claimant: Claimant, *, now_ms: int) -> Manifest:
    """A restored cluster raises the incarnation by one; it owns it only if the manifest read back has its uuid.

    Raises `ManifestFenced` unless the claimant's incarnation is the manifest's plus one, or already its own.
    """
    if manifest.claimant == claimant:
        return manifest
    if claimant.incarnation != manifest.claimant.incarnation + 1:
        raise _fenced(manifest, claimant)
    return successor(replace(manifest, claimant=claimant, claimed_ms=now_ms), "takeover", now_ms)


def commit(
    manifest: Manifest,
    claimant: Claimant,
    uploads: Sequence[Uploaded],
    *,
    now_ms: int,
    high_watermark: int = -1,
    last_stable_offset: int = -1,
) -> Manifest:
    """Append consecutive uploaded ranges (rules 1 and 2); those that are there already, by uuid, count as done.

    A range that lies wholly below the log start goes to the trash at once: no record of it may be read. Raises
    `ManifestFenced`, `NotClaimed`, `ForeignUpload` for an object uploaded under another claim, `NotAtRemoteEnd` for a
    range that does not begin at the remote end, `ManifestFull`, and `ArchiveDeleted`.
    """
    check_claim(manifest, claimant)
    if manifest.deleted_ms >= 0:
        raise ArchiveDeleted(
            f"{manifest.partition}: the archive was deleted at {manifest.deleted_ms}: nothing is added"
        )
    committed = {entry.uuid for entry in manifest.entries}
    added = [upload for upload in uploads if upload.entry.uuid not in committed]
    if not added:
        return manifest
    at = manifest.remote_end
    for entry, under in added:
        if under.rank != claimant.rank or under.uuid != claimant.uuid or entry.epoch != claimant.leader_epoch:
            raise ForeignUpload(
                f"{manifest.partition}: {entry.key} was uploaded under {under.words}, not under "
                f"{claimant.words}: upload it again"
            )
        if entry.base != at:
            raise NotAtRemoteEnd(manifest.partition, entry.base, at)
        at = entry.end
    entries = tuple(upload.entry for upload in added)
    if len(manifest.entries) + len(entries) > ENTRIES_MAX:
        raise ManifestFull(
            f"{manifest.partition}: the manifest would hold more than {ENTRIES_MAX} entries: raise segment.bytes or "
            "lower retention"
        )
    grown = replace(
        manifest,
        entries=manifest.entries + entries,
        remote_end=at,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        leader_epochs=_extend(manifest.leader_epochs, entries),
        totals=manifest.totals.plus(totals_of(entries)),
    )
    done = successor(grown, "commit", now_ms)
    if page_at(done, done.log_start_offset) is not None:
        return done  # the ranges that were added lie above that page, and so above the log start
    return _drop_dead(done, LOG_START_MOVED)


def page_at(manifest: Manifest, offset: int) -> PageRef | None:
    """The page in which some entries, but not all, end at or below ``offset``, as far as references tell."""
    return next((page for page in manifest.pages if page.live_first < offset < page.end), None)


def set_log_start(
    manifest: Manifest,
    claimant: Claimant,
    offset: int,
    *,
    now_ms: int,
    resume_at: int | None = None,
    reason: str,
    page_entries: Sequence[Entry] | None = None,
) -> Manifest:
    """Move the log start up to ``offset``; entries wholly below it go to the trash, their objects stay for now.

    Entries that lie wholly below the present log start go as well, also where it does not move.
    ``resume_at`` is the first batch border that the local log still has, at or below ``offset``: if it lies beyond
    the remote end, the archive goes on from there. ``page_entries`` are all entries of the page that `page_at` gives
    for the new log start, which must be given if there is one. Raises `ManifestFenced`, `NotClaimed`, and `Invalid`
    for a ``resume_at`` that would leave a hole in what may still be read.
    """
    check_claim(manifest, claimant)
    if resume_at is not None and resume_at > max(offset, manifest.log_start_offset):
        raise Invalid(
            f"{manifest.partition}: archiving cannot go on at offset {resume_at} while the log starts at {offset}: "
            "the offsets between them would be lost"
        )
    remote_end = max(manifest.remote_end, resume_at or 0)
    start = max(offset, manifest.log_start_offset)
    if start == manifest.log_start_offset and remote_end == manifest.remote_end and not _begins_dead(manifest):
        return manifest
    moved = successor(replace(manifest, log_start_offset=start, remote_end=remote_end), LOG_START, now_ms)
    return _drop_dead(moved, reason, page_entries)


def _begins_dead(manifest: Manifest) -> bool:
    """Whether the first page or entry lies wholly below the log start."""
    live: tuple[PageRef | Entry, ...] = manifest.pages or manifest.entries
    return bool(live) and live[0].end <= manifest.log_start_offset


def _drop_dead(manifest: Manifest, reason: str, page_entries: Sequence[Entry] | None = None) -> Manifest:
    """The same change with all that lies wholly below the log start in the trash; the next change dates it."""
    start = manifest.log_start_offset
    pages, trashed = _drop_from_pages(manifest, start, reason, page_entries)
    dead = [entry for entry in manifest.entries if entry.end <= start]
    trashed += [trashed_entry(entry, manifest.seq, reason) for entry in dead]
    if not trashed:
        return manifest
    entries = manifest.entries[len(dead) :]
    totals = totals_of(entries).plus(totals_of_pages(pages))
    trash = manifest.trash + tuple(trashed)
    return replace(manifest, pages=pages, entries=entries, totals=totals, trash=trash)


def _drop_from_pages(
    manifest: Manifest, start: int, reason: str, page_entries: Sequence[Entry] | None
) -> tuple[tuple[PageRef, ...], list[TrashEntry]]:
    """Split the pages for a log that starts at ``start``: those that remain, and those that go."""
    seq = manifest.seq
    gone = [page for page in manifest.pages if page.end <= start]
    trashed = [
        TrashEntry(
            page.key,
            page.size_bytes + page.totals.size_bytes,
            page.epoch_max,
            seq,
            reason,
            kind=PAGE_KIND,
            dead_count=page.dead_count,
            max_timestamp_ms=page.max_timestamp_ms,
        )
        for page in gone
    ]
    pages = manifest.pages[len(gone) :]
    if page_at(manifest, start) is None:
        return pages, trashed
    page = pages[0]
    if page_entries is None or len(page_entries) != page.entry_count or page_entries[-1].end != page.end:
        raise Corrupt(f"{manifest.partition}: the entries of the page {page.key} are needed to move the log start")
    dead = [entry for entry in page_entries[page.dead_count :] if entry.end <= start]
    dead_count = page.dead_count + len(dead)
    page = replace(
        page,
        dead_count=dead_count,
        live_first=page_entries[dead_count].base,
        front_timestamp_ms=page_entries[dead_count].max_timestamp_ms,
        totals=page.totals.minus(totals_of(dead)),
    )
    return (page, *pages[1:]), trashed + [trashed_entry(entry, seq, reason) for entry in dead]


def mark_deleted(manifest: Manifest, *, now_ms: int) -> Manifest:
    """Mark the topic as deleted: from now on it is only emptied. Returns it unchanged if it is marked already."""
    return manifest if manifest.deleted_ms >= 0 else successor(replace(manifest, deleted_ms=now_ms), "deleted", now_ms)


def check_claim(manifest: Manifest, claimant: Claimant) -> None:
    """Raise `ManifestFenced`, `NotClaimed` or `ManifestLost` unless the manifest carries exactly this claim."""
    held = manifest.claimant
    if not manifest.seq:
        raise ManifestLost(
            f"{manifest.partition}: {manifest.partition.manifest_key} is missing although {claimant.words} had claimed "
            "it: the archive stays unchanged until it is back"
        )
    if held.rank > claimant.rank or (held.rank == claimant.rank and held.uuid != claimant.uuid):
        raise _fenced(manifest, claimant)
    if held.rank < claimant.rank:
        raise NotClaimed(
            f"{manifest.partition}: the manifest is claimed by {held.words}, a change came under "
            f"{claimant.words}: claim first"
        )


def successor(changed: Manifest, kind: str, now_ms: int) -> Manifest:
    """Number the change, note it, and date the trash that earlier changes made (rule 9: dated by a later commit)."""
    seq = changed.seq + 1
    note = CommitNote(seq, kind, changed.claimant.leader_epoch, changed.remote_end, now_ms)
    trash = tuple(replace(item, since_ms=now_ms) if item.since_ms < 0 else item for item in changed.trash)
    return replace(changed, seq=seq, prev_sha256="", commits=(*changed.commits, note)[-COMMITS_KEPT:], trash=trash)


def _extend(history: tuple[LeaderEpoch, ...], entries: Sequence[Entry]) -> tuple[LeaderEpoch, ...]:
    epochs = list(history)
    for entry in entries:
        epochs += [e for e in entry.epochs if not epochs or e.epoch > epochs[-1].epoch]
    return tuple(epochs)


def _fenced(manifest: Manifest, claimant: Claimant) -> ManifestFenced:
    return ManifestFenced(
        f"{manifest.partition}: the archive is claimed by {manifest.claimant.words}, which fences "
        f"{claimant.words}: stop writing to it"
    )
