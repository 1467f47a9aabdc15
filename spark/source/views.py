"""Topics as they were at a cut: read from the copies of the manifests that the cut has kept.

A topic of a cut is read although it has been deleted since, and what retention has removed from it since: a cut keeps
its objects in the bucket. Rows carry the name of the view in their column ``topic``, as a mount's readers see it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from stratalog.tier.bucket.cuts import Cut, CutPartition
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.messages.commands import ReadCut
from stratalog.tier.planning.slices import PartitionArchive
from stratalog.tier.stores.store import ObjectStore
from stratalog.tier.work.cut_commands import CutUnknown, cut_manifest, read_cut_of
from stratalog.wire.errors import Unknown
from stratalog.wire.topic import TopicPartition

__all__ = ["archives_at_cut"]

_THREADS: Final = 16


def archives_at_cut(store: ObjectStore, name: str, topic: str, cut_name: str) -> list[PartitionArchive]:
    """The partitions of ``topic`` that belong to a cut, under the ``name`` that the reader has asked for.

    Raises `Unknown` unless there is a complete cut of that name with this topic, and `Corrupt` for a damaged copy.
    """
    try:
        cut = read_cut_of(store, ReadCut(cut_name, topic)).cut
    except CutUnknown as error:
        raise Unknown(
            f"topic '{name}' is not in the archive {store.url}: {error.reason}. See stratalog cut list --bucket URL"
        ) from error
    held = cut.topic(topic)
    members = [each for each in cut.partitions if held is not None and each.partition.topic_id == held.topic_id]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-cut") as pool:
        return list(pool.map(lambda each: _archive(store, name, cut, each), members))


def _archive(store: ObjectStore, name: str, cut: Cut, member: CutPartition) -> PartitionArchive:
    """One partition of the cut; its last entry may go on behind the end, which bounds what is read."""
    return PartitionArchive(
        TopicPartition(name, member.partition.partition),
        member.log_start_offset,
        member.end_offset,
        tuple(iter_entries(store, cut_manifest(store, cut, member), 0, member.end_offset)),
    )
