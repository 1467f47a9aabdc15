"""The leader of a partition as clients see it: the image's leader, unless its log cannot be served here.

A log that will be opened soon counts as one that is served: its broker says so to those who come too early.
"""

from __future__ import annotations

from typing import NamedTuple

from stratalog.broker.api.broker_view import BrokerView
from stratalog.metadata.image.topics_image import NO_LEADER, PartitionImage
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition

__all__ = ["PartitionHealth", "partition_health"]


class PartitionHealth(NamedTuple):
    """``leader`` is `NO_LEADER` where no broker can serve the partition; ``offline`` are the replicas to blame."""

    leader: int
    offline: list[int]
    error_code: ErrorCode


def partition_health(broker: BrokerView, topic: str, number: int, state: PartitionImage) -> PartitionHealth:
    """The health of one partition on this broker."""
    leader: int = state.leader
    offline: list[int] = []
    if leader == broker.node_id:
        led = broker.partitions.get(TopicPartition(topic, number))
        if led is None:
            served = broker.partitions.due.holds(topic, number) or broker.partitions.has_view(topic, number)
        else:
            served = led.partition.directory.offline is None
        if not served:
            leader, offline = NO_LEADER, [leader]
    return PartitionHealth(leader, offline, ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE)
