"""Carries out the commands that write the archive: claim, upload, commit, read back, log start."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from msgspec.structs import replace

from stratalog.tier.documents.keys import HistoryKey, SegmentKey, parse_key
from stratalog.tier.manifests.entries import iter_entries, read_page
from stratalog.tier.manifests.lost_archive import check_may_begin, check_not_lost
from stratalog.tier.manifests.manifest import (
    Manifest,
    ManifestFenced,
    ManifestLost,
    Uploaded,
    check_claim,
    claim,
    commit,
    page_at,
    set_log_start,
)
from stratalog.tier.manifests.manifest_store import StoredManifest, change_manifest, read_manifest
from stratalog.tier.manifests.second_timeline import check_timeline
from stratalog.tier.manifests.spill import spilling
from stratalog.tier.manifests.view import ManifestView, PackedEntries, packed_page
from stratalog.tier.messages.commands import (
    Claim,
    Commit,
    ManifestRead,
    ManifestUnchanged,
    ReadBack,
    ReadManifest,
    SetLogStart,
    Upload,
    UploadDone,
    VerifiedUpTo,
)
from stratalog.tier.objects.segment_object import build_segment
from stratalog.tier.objects.segment_upload import SINGLE_PUT_BYTES_MAX, put_segment, release_pages, verify_object
from stratalog.tier.objects.upload_buffers import UploadBuffers
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.source import source_length
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.tier.work.bucket_identity import check_bucket
from stratalog.wire.errors import Invalid

_BUFFERS: Final = UploadBuffers(2, SINGLE_PUT_BYTES_MAX)
"""One upload is checked while another is sent; a third one is read twice instead."""

__all__ = ["claim_archive", "commit_uploads", "move_log_start", "read_back", "read_view", "upload"]

log = logging.getLogger(__name__)


def claim_archive(store: ObjectStore, command: Claim) -> ManifestRead:
    """Raise the claim; the manifest is created with it if the partition has none.

    Raises `ManifestLost` if there is no manifest although there are objects or copies of it, or the command knows of an archive: it
    was lost, and starting a new archive would hide the old one. The same where the bucket is not the one that the command
    names, which costs one request for each new archive. Raises `SecondTimeline` if the command names the
    claims that were made and the manifest carries another one of the same broker.
    """
    if not read_manifest(store, command.partition).version:
        _refuse_lost_manifest(store, command)
        check_bucket(store, command.bucket_id)

    def transition(manifest: Manifest) -> Manifest:
        if command.made is not None:
            check_timeline(manifest, command.claimant, command.made)
        check_may_begin(manifest, command.start_offset)
        claimed = claim(manifest, command.claimant, now_ms=command.now_ms, start_offset=command.start_offset)
        check_not_lost(manifest, command.archived_end, command.archived_seq)
        if claimed is manifest or claimed.cluster_id:
            return claimed
        return replace(claimed, cluster_id=command.cluster_id)

    return _report(store, change_manifest(store, command.partition, transition), command.known_end)


def _refuse_lost_manifest(store: ObjectStore, command: Claim) -> None:
    first = next((info for info in store.list(command.partition.prefix) if _is_of_archive(info.key)), None)
    if first is not None and not read_manifest(store, command.partition).version:
        raise ManifestLost(
            f"{command.partition}: {command.partition.manifest_key} is missing although {first.key} exists: the "
            "manifest was lost. Restore it; nothing is archived until then"
        )


def _is_of_archive(key: str) -> bool:
    """Whether it is an object, or a copy of a manifest: one may be left where retention took all objects."""
    try:
        return isinstance(parse_key(key), SegmentKey | HistoryKey)
    except Invalid:
        return False


def upload(store: ObjectStore, command: Upload) -> UploadDone:
    """Build, verify and PUT one object, HEAD it if need be; its files' pages are given back when asked (rules 2, 3, 7)."""
    if command.request.epoch != command.claimant.leader_epoch:
        raise Invalid(
            f"{command.request.partition}: an upload under leader epoch {command.claimant.leader_epoch} cannot carry "
            f"epoch {command.request.epoch} in its key"
        )
    with _BUFFERS.lent(source_length(command.request.source)) as buffer:
        built = build_segment(command.request, buffer)
        entry = put_segment(store, built, part_bytes=command.part_bytes, storage_class=command.storage_class)
    if built.unread:
        log.warning(
            "%s: offsets [%d, %d) are archived with batches that cannot be read as their producer sent them: %s. "
            "Consumers get an error at such a batch, and go on if they seek behind it",
            command.request.partition,
            entry.base,
            entry.end,
            built.unread,
        )
    if command.request.drop_cache:
        release_pages(command.request.source)
    return UploadDone(Uploaded(entry, command.claimant))


def commit_uploads(store: ObjectStore, command: Commit) -> ManifestRead:
    """One compare-and-swap for all uploads of the command."""

    def transition(manifest: Manifest) -> Manifest:
        return commit(
            manifest,
            command.claimant,
            command.uploads,
            now_ms=command.now_ms,
            high_watermark=command.high_watermark,
            last_stable_offset=command.last_stable_offset,
        )

    prepare = spilling(store, len(command.uploads), command.kept_history)
    return _report(store, change_manifest(store, command.partition, transition, prepare), command.known_end)


def move_log_start(store: ObjectStore, command: SetLogStart) -> ManifestRead:
    """Move the archive's log start."""

    def transition(manifest: Manifest) -> Manifest:
        page = page_at(manifest, max(command.offset, manifest.log_start_offset))
        return set_log_start(
            manifest,
            command.claimant,
            command.offset,
            now_ms=command.now_ms,
            resume_at=command.resume_at,
            reason=command.reason,
            page_entries=None if page is None else read_page(store, manifest, page),
        )

    return _report(store, change_manifest(store, command.partition, transition), command.known_end)


def read_back(store: ObjectStore, command: ReadBack) -> VerifiedUpTo:
    """Rule 4: the manifest must carry my claim (a follower: my cluster's incarnation), and each HEAD must agree.

    Raises `ManifestFenced` otherwise, `ObjectDiffers` or `NotFound` for an object that is not as committed.
    """
    manifest = read_manifest(store, command.partition).manifest
    if command.claimant is not None:
        check_claim(manifest, command.claimant)
    elif manifest.claimant.incarnation != command.incarnation:
        raise ManifestFenced(
            f"{command.partition}: the archive is of incarnation {manifest.claimant.incarnation}, this cluster is "
            f"incarnation {command.incarnation}: nothing is evicted on its account"
        )
    verified = max(command.start, manifest.log_start_offset)  # below the log start nothing is owed to anyone
    for heads, entry in enumerate(iter_entries(store, manifest, verified)):
        if entry.base > verified or verified >= command.end or heads == command.heads_max:
            break
        verify_object(store, entry)
        verified = entry.end
    return VerifiedUpTo(min(verified, command.end))


def read_view(store: ObjectStore, command: ReadManifest) -> ManifestRead | ManifestUnchanged:
    """The manifest, unless a HEAD shows the version that is known."""
    if command.known_version:
        try:
            if store.head(command.partition.manifest_key).version == command.known_version:
                return ManifestUnchanged(command.known_version)
        except NotFound:
            pass  # read_manifest answers with the empty manifest
    return _report(store, read_manifest(store, command.partition), command.known_end)


def _report(store: ObjectStore, stored: StoredManifest, known_end: int) -> ManifestRead:
    """The manifest for the broker.

    Its pages are read only if the broker asks for all entries: no change must fail because of an old page. Raises `NotFound` for a page that is gone: the manifest may have been replaced since it was read.
    """
    manifest = stored.manifest
    view = ManifestView.of(manifest, stored.version, known_end)
    if manifest.pages and not manifest.entries:  # not as we write it
        view = replace(view, newest_key=read_page(store, manifest, manifest.pages[-1])[-1].key)
    if view.entries_from or not manifest.pages:
        return ManifestRead(view)
    packed = PackedEntries()
    for page in manifest.pages:
        packed.extend(get_checked(store, page.key, partial(packed_page, manifest.partition, page))[0])
    packed.extend(view.entries)
    return ManifestRead(replace(view, entries=packed))
