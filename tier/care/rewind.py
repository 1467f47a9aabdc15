"""Takes an archive back to what a cut holds: a restored cluster goes on from there.

Only a takeover may do that: the same change fences the former writer. Entries after the cut go to the
trash, so that it is gone after the grace and not at once. Objects that were in the trash and belong to the cut come
back; that is safe because the cut's pin has held them there (rule 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from stratalog.tier.bucket.cuts import Cut, CutPartition
from stratalog.tier.bucket.trash import trash_archive
from stratalog.tier.care.repair import apply_repair
from stratalog.tier.care.restore_plan import PartitionState
from stratalog.tier.care.takeover import raise_incarnation
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.jobs import QUARANTINE_KIND
from stratalog.tier.manifests.json import to_bytes
from stratalog.tier.manifests.manifest import COPY, REWIND, Manifest, successor
from stratalog.tier.manifests.manifest_store import change_manifest, check_size
from stratalog.tier.manifests.named_keys import objects_of
from stratalog.tier.manifests.parts import PAGE_KIND, Claimant, Job, TrashEntry, totals_of
from stratalog.tier.manifests.runs import RUN_KINDS
from stratalog.tier.manifests.spill import copying, spilling
from stratalog.tier.stores.store import ObjectStore
from stratalog.tier.work.cut_commands import cut_manifest
from stratalog.wire.errors import Invalid

__all__ = ["CutTarget", "check_rewind", "empty_added", "read_cut_target", "rewind_partition", "rewound"]

REWOUND: Final = "rewound to a cut"


class CutTarget(Struct, frozen=True):
    """The state that one partition goes back to: the entries ``[log_start_offset, end)`` of the cut.

    ``end`` is the border of an object, at or behind the end that the cut has.
    """

    cut_id: str
    partition: PartitionId
    entries: tuple[Entry, ...]
    log_start_offset: int
    end: int
    cut_end: int
    leader_epochs: tuple[LeaderEpoch, ...]


def read_cut_target(store: ObjectStore, cut: Cut, member: CutPartition) -> CutTarget:
    """Read the pinned manifest of one partition. Raises `Invalid`, `Corrupt`, and what the store raises."""
    pinned = cut_manifest(store, cut, member)
    entries = tuple(iter_entries(store, pinned, 0, member.end_offset))
    end = entries[-1].end if entries else member.end_offset
    epochs = tuple(epoch for epoch in pinned.leader_epochs if epoch.start_offset < end)
    return CutTarget(cut.cut_id, member.partition, entries, member.log_start_offset, end, member.end_offset, epochs)


def rewound(manifest: Manifest, target: CutTarget, live: Sequence[Entry], *, now_ms: int) -> Manifest:
    """The manifest with the entries of the cut; nothing to do if it has exactly these. Pure.

    ``live`` are its own entries now, those of pages too; its trash holds no pages with their objects any more (see
    `rewind_partition`). Runs are struck off with their parts. Raises `Invalid` if the cut has no pin here: its objects may
    be gone.
    """
    wanted = {entry.key for entry in target.entries}
    there = manifest.log_start_offset, manifest.remote_end, manifest.deleted_ms
    if there == (target.log_start_offset, target.end, -1) and [one.key for one in live] == [
        one.key for one in target.entries
    ]:
        return manifest
    if wanted and all(pin.cut_id != target.cut_id for pin in manifest.pins):
        raise Invalid(
            f"{manifest.partition}: the cut {target.cut_id} has no pin here: its objects may be gone. The records that are "
            "left are fetched into a new cluster by stratalog cut restore"
        )
    seq = manifest.seq + 1
    leaving = [TrashEntry(one.key, one.size_bytes, one.epoch, seq, REWOUND) for one in live if one.key not in wanted]
    leaving += [TrashEntry(page.key, page.size_bytes, page.epoch_max, seq, REWOUND) for page in manifest.pages]
    changed = successor(
        replace(
            manifest,
            log_start_offset=target.log_start_offset,
            remote_end=target.end,
            leader_epochs=target.leader_epochs,
            totals=totals_of(target.entries),
            pages=(),
            entries=target.entries,
            trash=tuple(item for item in manifest.trash if item.key not in wanted),
            jobs=_jobs_left(manifest.jobs, target.entries),
            archive_clean_offset=0,  # older objects come back; what a compaction said holds for its own
            deleted_ms=-1,
        ),
        REWIND,
        now_ms,
    )
    trash = (*changed.trash, *leaving)
    return replace(changed, trash=trash, rewritten_seq=changed.seq, shortened_seq=changed.seq)


def _jobs_left(jobs: Sequence[Job], live: Sequence[Entry]) -> tuple[Job, ...]:
    """The jobs that go on. Objects that a repair had left out, and that are live again, are under quarantine no more.

    A run knows records that are gone now: for their sake it would take others out of the cut.
    """
    uuids = {entry.uuid for entry in live}
    left: list[Job] = []
    for job in jobs:
        if job.kind == QUARANTINE_KIND:
            inputs = tuple(one for one in job.inputs if one not in uuids)
            left += [replace(job, inputs=inputs)] if inputs else []  # one without inputs would hold everything
        elif job.kind not in RUN_KINDS:
            left.append(job)
    return tuple(left)


def check_rewind(store: ObjectStore, manifest: Manifest, target: CutTarget, *, now_ms: int) -> None:
    """Raise what `rewind_partition` would raise of a partition that stands as in ``manifest``; it changes nothing."""
    back = replace(_back(store, manifest, target, now_ms), entries=())  # most of them will be in pages
    check_size(back, to_bytes(back))


def _back(store: ObjectStore, manifest: Manifest, target: CutTarget, now_ms: int) -> Manifest:
    live = list(iter_entries(store, manifest))
    return rewound(replace(manifest, trash=_single_objects(store, manifest)), target, live, now_ms=now_ms)


def rewind_partition(
    store: ObjectStore, target: CutTarget, claimant: Claimant, *, cluster_id: str, now_ms: int
) -> Manifest:
    """Take a partition over and back to a cut, in one change; the manifest afterwards, which a second change has copied.

    Without the copy a repair of a lost manifest would go by objects of the history that was left: a compaction there has taken
    records out for the sake of others that are gone again.
    ``claimant`` has the raised incarnation; its leader epoch is raised to the manifest's. Raises `ManifestFenced` if
    another restore was there first, `Invalid`, `Retriable`, and what the store raises.
    """

    def transition(manifest: Manifest) -> Manifest:
        epoch = max(claimant.leader_epoch, manifest.claimant.leader_epoch, 0)
        raised = raise_incarnation(manifest, claimant._replace(leader_epoch=epoch), now_ms=now_ms)
        back = _back(store, raised, target, now_ms)
        if back.seq == manifest.seq:
            return manifest
        return back if back.cluster_id else replace(back, cluster_id=cluster_id)

    ours = change_manifest(store, target.partition, transition, spilling(store, 0)).manifest.claimant

    def copied(manifest: Manifest) -> Manifest:
        history = manifest.history
        if manifest.claimant != ours or (history is not None and history.seq >= manifest.shortened_seq):
            return manifest
        return successor(manifest, COPY, now_ms)

    return change_manifest(store, target.partition, copied, copying(store)).manifest


def empty_added(store: ObjectStore, state: PartitionState, claimant: Claimant, *, cluster_id: str, now_ms: int) -> None:
    """Take over a partition that was added after the cut, and move its archive to the trash.

    The topic is without it again. A partition that is added in its place later has the same key, and would find an archive
    there that wins over what it has acknowledged. So the archive is marked as deleted: a leader of any epoch begins it anew,
    at its own offset. Raises as `rewind_partition`, and what `apply_repair` raises.
    """
    lowest = claimant._replace(leader_epoch=-1)  # below that of the first leader of the partition to come
    if state.repair is not None:
        apply_repair(store, state.repair, uuid=claimant.uuid, now_ms=now_ms, takeover=True, accept_loss=True)

    def transition(manifest: Manifest) -> Manifest:
        if not manifest.seq:
            return manifest
        raised = replace(raise_incarnation(manifest, lowest, now_ms=now_ms), claimant=lowest)
        emptied = trash_archive(raised, lowest, now_ms=now_ms, reason=REWOUND)
        emptied = replace(
            emptied,
            cluster_id=emptied.cluster_id or cluster_id,
            log_start_offset=0,  # of a partition that is made anew
            remote_end=0,
            leader_epochs=(),
        )
        return manifest if emptied == manifest else emptied

    change_manifest(store, state.partition, transition, spilling(store, 0))


def _single_objects(store: ObjectStore, manifest: Manifest) -> tuple[TrashEntry, ...]:
    """The trash with an item for each object: some of those that a page in it stands for may come back."""
    items: list[TrashEntry] = []
    for item in manifest.trash:
        if item.kind != PAGE_KIND:
            items.append(item)
            continue
        keys = objects_of(store, manifest.partition, item)
        items += [
            replace(item, key=key, kind="", dead_count=0, size_bytes=item.size_bytes // len(keys)) for key in keys
        ]
    return tuple(items)
