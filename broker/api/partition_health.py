"""The leader of a partition as clients see it: the image's leader, unless its log cannot be served here just now."""

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
        served = broker.partitions.has_view(topic, number) if led is None else led.partition.directory.offline is None
        if not served:
            leader, offline = NO_LEADER, [leader]
    return PartitionHealth(leader, offline, ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE)
