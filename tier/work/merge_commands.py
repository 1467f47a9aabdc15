"""Carries out a merge: list the job, read the objects, write one, swap it in (rule 9), each step safe to stop after."""

from __future__ import annotations

from functools import partial

from crc32c import crc32c

from stratalog.tier.bucket.swap_in import swapped_in
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import Entry, LeaderEpoch, joined_epochs
from stratalog.tier.manifests.jobs import MERGE_KIND, JobRefused, end_job, list_job, swap
from stratalog.tier.manifests.manifest import Manifest, check_claim
from stratalog.tier.manifests.manifest_store import StoredManifest, change_manifest, writer_version
from stratalog.tier.manifests.parts import Job
from stratalog.tier.manifests.runs import is_run_listed
from stratalog.tier.manifests.view import NO_ENTRIES, ManifestView
from stratalog.tier.messages.commands import MergeObjects, ObjectsMerged
from stratalog.tier.objects.footer import Footer, read_footer
from stratalog.tier.objects.segment_blobs import AbortedTransaction, aborted_from_bytes, epochs_from_bytes
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.objects.segment_reader import CorruptObject
from stratalog.tier.objects.segment_upload import put_segment
from stratalog.tier.planning.merge_plan import MergeSettings, borders, plan_merge
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.errors import Corrupt, StratalogError

__all__ = ["merge_objects"]


def merge_objects(store: ObjectStore, command: MergeObjects) -> ObjectsMerged:
    """Make one object of the oldest small neighbours; nothing to do if there are too few, or while a run rewrites them.

    A merge that an earlier attempt left listed is struck off first: its swap, should it still come, is refused.
    Raises `ManifestFenced`, `NotClaimed`, `JobRefused` if something changed meanwhile, `Corrupt` for a damaged object
    or page, and what the store raises.
    """
    stored = change_manifest(store, command.partition, lambda manifest: _strike_off(manifest, command))
    inputs = plan_merge(
        iter_entries(store, stored.manifest, stored.manifest.log_start_offset),
        MergeSettings(command.objects_min, command.bytes_max),
        no_crossing=borders(stored.manifest),
    )
    if not inputs or stored.manifest.deleted_ms >= 0 or is_run_listed(stored.manifest):
        return ObjectsMerged(_view(stored))
    job = Job(command.uuid, MERGE_KIND, command.now_ms, command.expires_ms, tuple(entry.uuid for entry in inputs))
    change_manifest(
        store,
        command.partition,
        lambda manifest: list_job(manifest, job, now_ms=command.now_ms, claimant=command.claimant),
    )
    try:
        output = put_segment(
            store, build_segment(_request(store, command, inputs)), storage_class=command.storage_class
        )
        swapped = change_manifest(
            store, command.partition, lambda manifest: _swapped(store, manifest, command, inputs, output)
        )
    except (Corrupt, NotFound, JobRefused) as error:
        try:
            change_manifest(
                store, command.partition, lambda manifest: end_job(manifest, command.uuid, now_ms=command.now_ms)
            )
        except StratalogError as other:
            error.add_note(f"The job could not be ended either, the next merge strikes it off: {other}")
        raise
    return ObjectsMerged(_view(swapped), len(inputs), output.data_bytes)


def _view(stored: StoredManifest) -> ManifestView:
    return ManifestView.of(stored.manifest, stored.version, NO_ENTRIES)


def _strike_off(manifest: Manifest, command: MergeObjects) -> Manifest:
    check_claim(manifest, command.claimant)
    for job in manifest.jobs:
        if job.kind == MERGE_KIND and job.uuid != command.uuid:
            return end_job(manifest, job.uuid, now_ms=command.now_ms)
    return manifest


def _swapped(
    store: ObjectStore, manifest: Manifest, command: MergeObjects, inputs: tuple[Entry, ...], output: Entry
) -> Manifest:
    return swapped_in(store, manifest, inputs, output, partial(swap, now_ms=command.now_ms, claimant=command.claimant))


def _request(store: ObjectStore, command: MergeObjects, inputs: tuple[Entry, ...]) -> SegmentRequest:
    """The object to build: the data of all, each checked, and what the last one knows of producers and leaders."""
    data: list[memoryview] = []
    aborted: dict[AbortedTransaction, None] = {}
    epochs: tuple[LeaderEpoch, ...] = ()
    snapshot = b""
    for entry in inputs:
        raw, footer = _read_object(store, entry)
        data.append(raw[: entry.data_bytes])
        aborted |= dict.fromkeys(aborted_from_bytes(_part(raw, footer, entry, "aborted")))
        epochs = epochs_from_bytes(bytes(_part(raw, footer, entry, "leader_epochs")))
        snapshot = bytes(_part(raw, footer, entry, "producer_snapshot"))
    return SegmentRequest(
        partition=command.partition,
        uuid=command.uuid,
        base=inputs[0].base,
        end=inputs[-1].end,
        epoch=command.claimant.leader_epoch,
        source=data,
        leader_epochs=joined_epochs(epochs, inputs),
        producer_snapshot=snapshot,
        aborted=tuple(aborted),
        compacted=any(entry.compacted for entry in inputs),
        cluster_id=command.cluster_id,
        writer=writer_version(),
        broker_id=command.claimant.broker_id,
        sealed_ms=max(entry.sealed_ms for entry in inputs),
        uploaded_ms=command.now_ms,
    )


def _read_object(store: ObjectStore, entry: Entry) -> tuple[memoryview, Footer]:
    """A whole object by one GET, as it was committed. Raises `CorruptObject`, `NotFound`."""
    return get_checked(store, entry.key, lambda raw: _parsed_object(entry, raw))[0]


def _parsed_object(entry: Entry, raw: bytes) -> tuple[memoryview, Footer]:
    if len(raw) != entry.size_bytes or crc32c(raw) != entry.crc32c:
        raise CorruptObject(entry.key, 0, entry.base, "its length or CRC-32C differs from the manifest's: not merged")
    try:
        return memoryview(raw), read_footer(raw, len(raw))
    except Corrupt as error:
        raise CorruptObject(entry.key, 0, -1, str(error)) from error


def _part(raw: memoryview, footer: Footer, entry: Entry, name: str) -> memoryview:
    blob = footer.blobs.get(name)
    if blob is None:
        raise CorruptObject(entry.key, 0, -1, f"the footer names no part {name!r}")
    return raw[blob.position : blob.position + blob.length]
