"""In a cluster: which brokers note the archive of a deleted topic, and which one removes it first. decision 0064.

A deletion counts once its record is committed: each broker sees it in the image, also after a change of controllers. All brokers that
know of an archive note it, and act under the same claim, so that it makes no difference who does a step, or whether two do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Final

from stratalog.broker.archive.deleted_archives import DeletedArchive
from stratalog.metadata.image.difference import ImageChange
from stratalog.metadata.image.image import ClusterImage, ImageDelta
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.wire.topic import Uuid

__all__ = ["SECOND_AFTER_MS", "committed_deletions", "first_remover", "removal_claim"]

SECOND_AFTER_MS: Final = 3_600_000
"""So long after the grace the other brokers look whether the first one has removed an archive."""
_UUID_BYTES: Final = 16


def removal_claim(topic_id: Uuid, partition: int) -> Uuid:
    """The mark of the claim under which any broker of the cluster removes a deleted partition's archive."""
    return hashlib.sha256(b"deleted" + topic_id + partition.to_bytes(4, "big")).digest()[:_UUID_BYTES]


def first_remover(replicas: Sequence[int], active: Collection[int]) -> int | None:
    """The broker that removes an archive at once: a replica that is active, else the lowest active id; None without one."""
    alive = [one for one in replicas if one in active]
    return alive[0] if alive else min(active, default=None)


def committed_deletions(
    change: ImageChange,
    image: ClusterImage,
    *,
    node_id: int,
    is_archived: Callable[[str, Uuid], bool],
    now_ms: int,
    grace_ms: int,
) -> list[DeletedArchive]:
    """The archives that this broker notes, of the topics that records have removed from the image before ``image``.

    A topic that is merely missing in a snapshot of the leader's was not seen to be deleted: its archive stays. An archive of
    a topic whose tiering is off is known to its replica; where that is down, the first broker asks the bucket.
    """
    if not isinstance(change, ImageDelta) or not change.removed_topics:
        return []
    before = change.base
    found: list[DeletedArchive] = []
    active = {one.broker_id for one in image.brokers.brokers.values() if not one.is_fenced}
    for topic_id in change.removed_topics:
        topic = before.topics.by_id[topic_id]
        configured = before.topic_configs(topic.name).get("remote.storage.enable", "false").strip().lower() == "true"
        is_known = configured or is_archived(topic.name, topic_id)
        for number, state in topic.partitions.items():
            is_first = first_remover(state.replicas, active) == node_id
            if not is_first and not is_known:
                continue
            claim = removal_claim(topic_id, number)
            found.append(
                DeletedArchive(
                    PartitionId(topic.name, topic_id, number),
                    Claimant(before.incarnation, state.leader_epoch + 1, claim, node_id),
                    not_before_ms=0 if is_first else now_ms + grace_ms + SECOND_AFTER_MS,
                    asks_first=not is_first or not is_known,
                )
            )
    return found
