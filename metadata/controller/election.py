"""The election of a partition's leader.

The leader is the first replica, in the assigned order, that is alive and in sync. If none is, and unclean election is
allowed, the first that is alive leads alone and must recover (KIP-704). Source: Kafka's ``PartitionChangeBuilder``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stratalog.metadata.image.topics_image import NO_LEADER, NO_LEADER_CHANGE, LeaderRecovery, PartitionImage
from stratalog.wire.records.metadata import PartitionChangeRecord
from stratalog.wire.topic import Uuid

__all__ = ["Election", "elect", "partition_change"]


class Election(NamedTuple):
    """The outcome: ``leader`` may be `NO_LEADER`; after an unclean election records may be lost."""

    leader: int
    is_unclean: bool = False


def elect(
    replicas: tuple[int, ...],
    in_sync_replicas: tuple[int, ...],
    is_alive: Callable[[int], bool],
    *,
    unclean_allowed: bool,
) -> Election:
    """The leader of a partition."""
    for replica in replicas:
        if replica in in_sync_replicas and is_alive(replica):
            return Election(replica)
    if unclean_allowed:
        for replica in replicas:
            if is_alive(replica):
                return Election(replica, is_unclean=True)
    return Election(NO_LEADER)


def partition_change(
    topic_id: Uuid,
    partition: int,
    image: PartitionImage,
    in_sync_replicas: tuple[int, ...],
    is_alive: Callable[[int], bool],
    *,
    unclean_allowed: bool,
    raise_epoch: bool = False,
) -> PartitionChangeRecord | None:
    """The record that gives ``image`` a living leader among ``in_sync_replicas``, or ``None`` if nothing changes.

    The in-sync set never becomes empty: the last members stay in it while there is no leader. ``raise_epoch`` names the
    leader even if it stays, which raises the leader epoch.
    """
    kept = in_sync_replicas or image.in_sync_replicas
    if image.leader in in_sync_replicas and is_alive(image.leader):
        election = Election(image.leader)
    else:
        election = elect(image.replicas, in_sync_replicas, is_alive, unclean_allowed=unclean_allowed)
    if election.is_unclean:
        kept = (election.leader,)
    leader = election.leader if election.leader != image.leader or raise_epoch else NO_LEADER_CHANGE
    new_set = list(kept) if kept != image.in_sync_replicas else None
    if leader == NO_LEADER_CHANGE and new_set is None:
        return None
    record = PartitionChangeRecord(topic_id=topic_id, partition_id=partition, leader=leader, isr=new_set)
    if election.is_unclean:
        record.leader_recovery_state = int(LeaderRecovery.RECOVERING)
    return record
