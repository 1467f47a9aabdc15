"""Carries out the commands that remove: empty the trash, trash an archive, begin again, remove what is left of one.

Deletions come before the change that forgets them: an answer that is lost anywhere leaves work that is done again,
never an object that no manifest names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import NamedTuple

from stratalog.tier.bucket.trash import (
    TOPIC_DELETED,
    Retention,
    begin_again,
    date_trash,
    end_expired_jobs,
    forget,
    leaving,
    ripe_ms,
    trash_archive,
    unleased,
)
from stratalog.tier.documents.keys import SegmentKey, parse_key, topic_key, topic_prefix
from stratalog.tier.manifests.entries import read_page
from stratalog.tier.manifests.garbage import Verdict, judge, old_enough
from stratalog.tier.manifests.jobs import QUARANTINE_KIND
from stratalog.tier.manifests.leases import list_leases
from stratalog.tier.manifests.manifest import Manifest, check_claim
from stratalog.tier.manifests.manifest_store import StoredManifest, change_manifest, read_manifest
from stratalog.tier.manifests.named_keys import objects_of
from stratalog.tier.manifests.parts import TrashEntry
from stratalog.tier.manifests.view import ManifestView
from stratalog.tier.messages.commands import (
    ArchiveRemoved,
    BeginAgain,
    Claim,
    EmptyTrash,
    ManifestRead,
    RemoveArchive,
    RemoveTopicDocument,
    TrashArchive,
    TrashEmptied,
    Written,
)
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.tier.work.archive_commands import claim_archive
from stratalog.tier.work.bucket_identity import check_bucket
from stratalog.wire.errors import Corrupt, Invalid

__all__ = ["archive_again", "empty_trash", "remove_archive", "remove_topic_document", "trash_partition"]


def empty_trash(store: ObjectStore, command: EmptyTrash) -> TrashEmptied:
    """Rule 9, in its order: the manifest, then the leases, then DELETE, then the change that forgets.

    Raises `ManifestFenced` and what the store raises.
    """
    manifest = read_manifest(store, command.partition).manifest
    if not manifest.trash and not manifest.jobs:
        return TrashEmptied(seq=manifest.seq)
    if manifest.claimant.rank < command.claimant.rank:
        return TrashEmptied(0, 0, len(manifest.trash), ripe_ms(manifest, command.grace_ms), claim_needed=True)
    emptied = _emptied(store, manifest, command, command.retention, command.items_max)
    left = emptied.manifest
    return TrashEmptied(
        len(emptied.removed),
        sum(item.size_bytes for item in emptied.removed),
        len(left.trash),
        ripe_ms(left, command.grace_ms),
        problem=emptied.problem,
        seq=left.seq,
        left_bytes=sum(item.size_bytes for item in left.trash),
        leased_count=emptied.leased_count,
        job_count=len(left.jobs),
    )


def trash_partition(store: ObjectStore, command: TrashArchive) -> ManifestRead:
    """Claim above the last writer, then move everything to the trash, each by a compare-and-swap.

    Raises `ManifestFenced`, and `ManifestLost` where there are objects without a manifest: then nothing is removed.
    """
    claim = Claim(
        command.partition,
        command.claimant,
        command.now_ms,
        start_offset=0,
        cluster_id=command.cluster_id,
        bucket_id=command.bucket_id,
    )
    claim_archive(store, claim)
    return _view(
        _change(
            store,
            command,
            lambda manifest: trash_archive(manifest, command.claimant, now_ms=command.now_ms, reason=command.reason),
        )
    )


def archive_again(store: ObjectStore, command: BeginAgain) -> ManifestRead:
    """Let an archive that was moved to the trash begin anew."""
    return _view(
        _change(
            store,
            command,
            lambda manifest: begin_again(manifest, command.claimant, command.offset, now_ms=command.now_ms),
        )
    )


def remove_archive(store: ObjectStore, command: RemoveArchive) -> ArchiveRemoved:
    """Empty the trash; when it is empty remove what is left in the folder (rule 5), and the manifest last.

    Without a manifest nothing is removed: it went last, or it was lost. Raises `ManifestFenced`, `Invalid` for an
    archive that is not marked as deleted, `ManifestLost` where it is another bucket that has no manifest.
    """
    prefix = command.partition.prefix
    listed = list(store.list(prefix))
    uploads = list(store.list_uploads(prefix))
    manifest = read_manifest(store, command.partition).manifest
    if not manifest.seq:
        check_bucket(store, command.bucket_id)
        return ArchiveRemoved(0)
    check_claim(manifest, command.claimant)
    if manifest.deleted_ms < 0:
        raise Invalid(f"{command.partition}: the archive is not marked as deleted: it stays as it is")
    if manifest.entries or manifest.pages:  # earlier versions kept what lay below the log start
        manifest = change_manifest(store, command.partition, partial(_trashed, command=command)).manifest
    emptied = _emptied(store, manifest, command, None, len(listed))
    manifest, problem = emptied.manifest, emptied.problem
    if not command.now_ms > manifest.deleted_ms + command.grace_ms:
        return ArchiveRemoved(max(len(listed), 1), problem)
    if manifest.trash or manifest.pins or manifest.jobs:
        return ArchiveRemoved(max(len(listed), 1), problem or _held(manifest))
    garbage = [
        info.key
        for info in listed
        if judge(manifest, (), info, now_ms=command.now_ms, grace_ms=command.grace_ms) is Verdict.GARBAGE
    ]
    old = [one for one in uploads if old_enough(one.started_ms, command.now_ms, command.grace_ms)]
    for one in old:
        store.abort_upload(one.key, one.upload_id)
    store.delete_many(garbage)
    left = [info.key for info in store.list(prefix) if info.key != command.partition.manifest_key]
    if left or len(old) < len(uploads):
        return ArchiveRemoved(len(left) + len(uploads) - len(old) + 1)
    store.delete_many([command.partition.manifest_key])
    return ArchiveRemoved(0)


def _held(manifest: Manifest) -> str:
    """Say who holds an archive that could go by now; empty if only leases do, which run out."""
    cuts, kinds = sorted(pin.cut_id for pin in manifest.pins), sorted({job.kind for job in manifest.jobs})
    holders = [f"the cut {cut_id} (stratalog cut delete)" for cut_id in cuts]
    holders += [f"a job of the kind {kind}" for kind in kinds if kind != QUARANTINE_KIND]
    if QUARANTINE_KIND in kinds:
        holders.append("what a repair has left out (stratalog tier repair --release)")
    return f"the deleted topic's archive is held by {', '.join(holders)}: it goes when they do" if holders else ""


def _trashed(manifest: Manifest, command: RemoveArchive) -> Manifest:
    return trash_archive(manifest, command.claimant, now_ms=command.now_ms, reason=TOPIC_DELETED)


def remove_topic_document(store: ObjectStore, command: RemoveTopicDocument) -> Written:
    """Remove ``topic.json`` unless something else is left in the topic's folder."""
    key = topic_key(command.topic, command.topic_id)
    found = islice(store.list(topic_prefix(command.topic, command.topic_id)), 2)
    if [info.key for info in found] == [key]:
        store.delete_many([key])
    return Written(key)


class _Emptied(NamedTuple):
    """The manifest after everything that may go has gone, what went, why something cannot, and how much leases hold."""

    manifest: Manifest
    removed: list[TrashEntry]
    problem: str
    leased_count: int


def _emptied(
    store: ObjectStore,
    manifest: Manifest,
    command: EmptyTrash | RemoveArchive,
    retention: Retention | None,
    items_max: int,
) -> _Emptied:
    """Let go what may go."""
    partition, claimant, now_ms = command.partition, command.claimant, command.now_ms
    check_claim(manifest, claimant)
    if end_expired_jobs(manifest, now_ms=now_ms) is not manifest:
        manifest = change_manifest(store, partition, lambda found: end_expired_jobs(found, now_ms=now_ms)).manifest
    if any(item.since_ms < 0 for item in manifest.trash):
        manifest = change_manifest(store, partition, lambda found: date_trash(found, claimant, now_ms=now_ms)).manifest
    ripe = leaving(manifest, now_ms=now_ms, grace_ms=command.grace_ms, retention=retention)[:items_max]
    ripe_count = len(ripe)
    if ripe:
        ripe = unleased(ripe, list_leases(store), now_ms)  # listed after the manifest was read
    objects: list[str] = []
    pages: list[str] = []
    removed: list[TrashEntry] = []
    problem = ""
    for item in ripe:
        try:
            *inside, last = objects_of(store, partition, item)
            inside = _not_live(store, manifest, inside)
        except (Corrupt, NotFound) as error:
            problem = f"{error}. It stays in the trash with the objects that it names"
            continue
        objects += inside
        (pages if inside else objects).append(last)
        removed.append(item)
    leased_count = ripe_count - len(ripe)
    if not removed:
        return _Emptied(manifest, removed, problem, leased_count)
    store.delete_many(objects)
    store.delete_many(pages)
    keys = {item.key for item in removed}
    stored = change_manifest(store, partition, lambda found: forget(found, claimant, keys, now_ms=now_ms))
    return _Emptied(stored.manifest, removed, problem, leased_count)


def _not_live(store: ObjectStore, manifest: Manifest, keys: list[str]) -> list[str]:
    """Those of a page's objects that no live entry names: the second line, as none returns from the trash.

    Raises `Corrupt` and `NotFound` for a live page of the same offsets that cannot be read; other pages are not read.
    """
    spans = [key for key in map(parse_key, keys) if isinstance(key, SegmentKey)]
    if not spans:
        return keys
    first, end = min(key.base for key in spans), max(key.end for key in spans)
    live = {entry.key for entry in manifest.entries}
    for page in manifest.pages:
        if page.first < end and page.end > first:
            live.update(entry.key for entry in read_page(store, manifest, page)[page.dead_count :])
    return [key for key in keys if key not in live]


def _change(
    store: ObjectStore, command: TrashArchive | BeginAgain, transition: Callable[[Manifest], Manifest]
) -> StoredManifest:
    return change_manifest(store, command.partition, transition)


def _view(stored: StoredManifest) -> ManifestRead:
    return ManifestRead(ManifestView.of(stored.manifest, stored.version))
