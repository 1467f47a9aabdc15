"""Counts the partitions of the cluster that lack replicas, for the page: some at each look, so that no look holds the loop."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, TypedDict

from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import NO_LEADER, PartitionImage, TopicsImage

__all__ = ["ReplicaCounter", "ReplicaCounts"]

PARTITIONS_A_LOOK: Final = 2000


class ReplicaCounts(TypedDict):
    """The partitions of a cluster."""

    partitions: int
    without_leader: int
    under_replicated: int
    """With fewer in-sync replicas than they have; those that a reassignment adds do not count."""
    reassigning: int


class ReplicaCounter:
    """Goes over the topics of an image once, and over those of a later image when that differs."""

    def __init__(self) -> None:
        self._counted: TopicsImage | None = None
        self._counts: ReplicaCounts | None = None
        self._topics: TopicsImage | None = None
        self._rest: Iterator[PartitionImage] = iter(())
        self._under_way = _none()

    def look(self, image: ClusterImage) -> ReplicaCounts | None:
        """Count some more; the counts of the last image that was gone over wholly, None before the first."""
        if image.topics is self._counted:
            return self._counts
        if self._topics is None:
            self._topics, self._under_way = image.topics, _none()
            self._rest = _partitions(image.topics)
        some = list(islice(self._rest, PARTITIONS_A_LOOK))
        for one in some:
            _add(self._under_way, one)
        if len(some) < PARTITIONS_A_LOOK:
            self._counted, self._counts, self._topics = self._topics, self._under_way, None
        return self._counts


def _none() -> ReplicaCounts:
    return ReplicaCounts(partitions=0, without_leader=0, under_replicated=0, reassigning=0)


def _partitions(topics: TopicsImage) -> Iterator[PartitionImage]:
    for topic in topics.by_name.values():
        yield from topic.partitions.values()


def _add(counts: ReplicaCounts, one: PartitionImage) -> None:
    counts["partitions"] += 1
    counts["without_leader"] += one.leader == NO_LEADER
    counts["under_replicated"] += len(one.in_sync_replicas) < len(one.replicas) - len(one.adding_replicas)
    counts["reassigning"] += bool(one.adding_replicas or one.removing_replicas)
