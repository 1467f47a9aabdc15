"""Carries out a repair: one manifest, by compare-and-swap on what the plan was made from. It never deletes an object.

Objects that the new manifest does not name are listed in a job of the kind ``quarantine``, which protects them from
garbage collection until an operator strikes it off. A manifest that could not be read is kept as a history copy.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from crc32c import crc32c
from msgspec.structs import replace

from stratalog.tier.care.repair_plan import RepairPlan
from stratalog.tier.care.verify_history import read_history_copy
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.entry_chain import ends_of_epochs
from stratalog.tier.manifests.history import is_kept
from stratalog.tier.manifests.jobs import QUARANTINE_KIND, end_job
from stratalog.tier.manifests.json import predecessor_hash, to_bytes
from stratalog.tier.manifests.manifest import REPAIR, Manifest, successor
from stratalog.tier.manifests.manifest_store import (
    StoredManifest,
    change_manifest,
    check_size,
    read_manifest,
    writer_version,
)
from stratalog.tier.manifests.pages import Spill, compressed, plan_spill, spill
from stratalog.tier.manifests.parts import Claimant, HistoryRef, Job, TrashEntry, totals_of
from stratalog.tier.manifests.runs import RUN_KINDS
from stratalog.tier.manifests.spill import write_page
from stratalog.tier.stores.store import AlreadyExists, NotFound, ObjectStore, PreconditionFailed
from stratalog.wire.errors import Corrupt, Invalid, Retriable
from stratalog.wire.topic import Uuid

__all__ = ["RepairRefused", "apply_repair", "check_repair", "release_quarantine", "repaired_manifest"]

_NEVER_MS: Final = 1 << 62
_PAGES_MAX: Final = 16
"""So many pages of attempts that ended before their manifest was written are passed over."""


class RepairRefused(Invalid):
    """The repair would fence a live leader or give up data that can be read: say that this is wanted, or look again."""


def repaired_manifest(
    plan: RepairPlan, *, uuid: Uuid, now_ms: int, takeover: bool = False, skipped: int = 0
) -> Manifest:
    """The manifest that a plan leads to; ``uuid`` marks the quarantine, and a claim that is raised. Pure.

    ``skipped`` numbers are left out. Where offsets are lost, or the manifest is not the latest one, runs are struck off.

    Where the last number is not known it goes on at the seconds since 1970, above all that brokers may know: changes are
    rarer. A number that was used before would have them call the archive lost, should it end earlier.
    """
    base, entries = plan.base, plan.chain.entries
    if not plan.current:
        base = replace(base, seq=max(base.seq, now_ms // 1000))
    base = replace(base, seq=base.seq + skipped)
    start = entries[0].base if entries else base.remote_end
    # A copy of a history that was left names epochs that lie behind the start of later ones.
    ends = ends_of_epochs([*base.leader_epochs, *(each for entry in entries for each in entry.epochs)])
    epochs = [each for each in base.leader_epochs if each.start_offset < ends[each.epoch]]
    for entry in entries:
        epochs += [each for each in entry.epochs if not epochs or each.epoch > epochs[-1].epoch]
    # A run may know records that are gone now, or objects that are others by now.
    unknown = bool(plan.lost) or not plan.current
    jobs = tuple(job for job in base.jobs if not unknown or job.kind not in RUN_KINDS)
    kept = {item for job in jobs for item in job.inputs}
    dropped = tuple(sorted({entry.uuid for entry in plan.dropped} - kept))
    if dropped:
        jobs = (*jobs, Job(uuid, QUARANTINE_KIND, now_ms, _NEVER_MS, dropped))
    waiting = {item.key for item in base.trash}
    old_pages = tuple(
        TrashEntry(info.key, info.size_bytes, base.claimant.leader_epoch, base.seq + 1, "repair")
        for info in plan.pages
        if info.key not in waiting
    )
    mended = successor(
        replace(
            base,
            claimant=_claimant(plan, uuid, takeover=takeover),
            claimed_ms=now_ms if takeover else base.claimed_ms,
            log_start_offset=max(base.log_start_offset, start),
            remote_end=entries[-1].end if entries else base.remote_end,
            leader_epochs=_rising(epochs),
            totals=totals_of(entries),
            pages=(),
            entries=entries,
            jobs=jobs,
            pins=base.pins + plan.pins,
            archive_clean_offset=0,  # an object from before a compaction may be among these
        ),
        REPAIR,
        now_ms,
    )
    return replace(mended, rewritten_seq=mended.seq, shortened_seq=mended.seq, trash=mended.trash + old_pages)


def _rising(epochs: list[LeaderEpoch]) -> tuple[LeaderEpoch, ...]:
    kept: list[LeaderEpoch] = []
    for each in epochs:
        if not kept or (each.epoch > kept[-1].epoch and each.start_offset >= kept[-1].start_offset):
            kept.append(each)
    return tuple(kept)


def _claimant(plan: RepairPlan, uuid: Uuid, *, takeover: bool) -> Claimant:
    """The claim stays; a takeover raises the incarnation above every one that was seen."""
    if not takeover:
        return plan.base.claimant
    shown = plan.shown
    seen = shown if plan.claim_seen is None else max(shown, plan.claim_seen)
    return Claimant(seen.incarnation + 1, max(shown.leader_epoch, seen.leader_epoch), uuid, shown.broker_id)


def check_repair(plan: RepairPlan, *, takeover: bool, accept_loss: bool) -> None:
    """Raise `RepairRefused` unless the plan may be carried out."""
    seen = plan.claim_seen
    if seen is not None and seen.rank > plan.shown.rank and not takeover:
        raise RepairRefused(
            f"{plan.partition}: the damaged manifest was claimed by {seen.words}, what is left of the archive only "
            f"shows {plan.shown.words}: a live leader may hold it. Stop it and repeat with --takeover"
        )
    if plan.readable_lost and not accept_loss:
        ranges = ", ".join(f"[{start}, {end})" for start, end in plan.lost)
        raise RepairRefused(
            f"{plan.partition}: offsets {ranges} would not be readable any more although some of their objects are "
            "sound: put missing objects back, or repeat with --accept-loss (their objects are kept, not deleted)"
        )


def apply_repair(
    store: ObjectStore,
    plan: RepairPlan,
    *,
    uuid: Uuid,
    now_ms: int,
    takeover: bool = False,
    accept_loss: bool = False,
) -> StoredManifest:
    """Write the manifest of the plan.

    Raises `RepairRefused`; `Retriable` if the manifest has changed since the plan was made; `ManifestFull`; what the store
    raises.
    """
    check_repair(plan, takeover=takeover, accept_loss=accept_loss)
    mended = _paged(store, plan, uuid=uuid, now_ms=now_ms, takeover=takeover)
    mended = replace(mended, history=_history(store, plan), writer=writer_version())
    if plan.raw:
        mended = replace(mended, prev_sha256=predecessor_hash(plan.raw))
    raw = to_bytes(mended)
    check_size(mended, raw)
    key = plan.partition.manifest_key
    try:
        if plan.version:
            version = store.compare_and_swap(key, raw, plan.version, crc32c=crc32c(raw))
        else:
            version = store.put_if_absent(key, raw, crc32c=crc32c(raw))
    except (AlreadyExists, PreconditionFailed) as error:
        raise Retriable(f"{plan.partition}: the manifest has changed since it was looked at: plan again") from error
    return StoredManifest(mended, version, raw)


def _paged(store: ObjectStore, plan: RepairPlan, *, uuid: Uuid, now_ms: int, takeover: bool) -> Manifest:
    """The manifest of the plan, its older entries in pages, under a number that no other attempt has left a page of."""
    for skipped in range(_PAGES_MAX):
        mended = repaired_manifest(plan, uuid=uuid, now_ms=now_ms, takeover=takeover, skipped=skipped)
        paged = _with_pages(store, mended)
        if paged is not None:
            return paged
    raise Retriable(f"{plan.partition}: other writers are writing pages meanwhile: plan again")


def _with_pages(store: ObjectStore, manifest: Manifest) -> Manifest | None:
    """Older entries go to pages, as always; None where another writer has left another page under the key of one.

    It may be named already. The next number has another key.
    """
    while (plan := plan_spill(manifest)) is not None:
        plan = Spill((), plan.inline_count)
        entries = manifest.entries[: plan.inline_count]
        page = write_page(store, manifest, entries, manifest.seq)
        if page is None:
            return None
        manifest = spill(manifest, plan, page)
    return manifest


def _history(store: ObjectStore, plan: RepairPlan) -> HistoryRef | None:
    """The old manifest is kept: as the newest link of the chain if it can be read, else beside it."""
    base = plan.base
    link = plan.link
    if plan.raw:
        mark = predecessor_hash(plan.raw)
        key = plan.partition.history_key(base.seq, f"{'repaired' if plan.current else 'damaged'}-{mark[:16]}")
        data = compressed(plan.raw)
        with suppress(AlreadyExists):  # an earlier attempt to repair the same manifest
            store.put_if_absent(key, data, crc32c=crc32c(data))
        if plan.current:
            link = HistoryRef(base.seq, key, mark)
    start = _chain_start(store, base, trimmed_since=not plan.current)
    if start is None:
        return None
    history = link or base.history
    return history and replace(history, start=start)


def _chain_start(store: ObjectStore, base: Manifest, *, trimmed_since: bool) -> int | None:
    """Where the kept part of the chain starts; None if it is broken: such a one is not gone on with.

    ``trimmed_since``: ``base`` is not the latest manifest, and copies that it names may have been removed on purpose
    since. Those that are gone at the old end count as such: the two cases look the same.
    """
    ref, start = base.history, base.history.start if base.history is not None else 0
    while ref is not None and is_kept(base, ref):
        number = ref.seq
        try:
            ref = read_history_copy(store, ref).history
        except NotFound:
            return number + 1 if trimmed_since else None
        except Corrupt:
            return None
    return start


def release_quarantine(store: ObjectStore, partition: PartitionId, *, now_ms: int) -> bool:
    """Strike off what repairs have put under quarantine: its objects are garbage from then on. Whether there was any.

    Raises `Corrupt` for a manifest that cannot be read, `Retriable`, and what the store raises.
    """

    def transition(manifest: Manifest) -> Manifest:
        for job in manifest.jobs:
            if job.kind == QUARANTINE_KIND:
                manifest = end_job(manifest, job.uuid, now_ms=now_ms)
        return manifest

    if all(job.kind != QUARANTINE_KIND for job in read_manifest(store, partition).manifest.jobs):
        return False
    change_manifest(store, partition, transition)
    return True
