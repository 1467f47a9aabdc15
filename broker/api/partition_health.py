"""The leader and the offline replicas of a partition as clients of one listener see them.

They are the image's, as in Kafka's ``KRaftMetadataCache``: a replica is offline whose broker is fenced, is not registered,
has no such listener, or has lost the replica's directory. A broker knows more of its own logs than the image: one that
cannot be served here just now has no leader. A log that will be opened soon counts as one that is served: its broker says
so to those who come too early.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stratalog.broker.api.broker_view import BrokerView
from stratalog.metadata.image.brokers_image import BrokerImage, BrokersImage
from stratalog.metadata.image.directory_ids import is_online
from stratalog.metadata.image.topics_image import NO_LEADER, PartitionImage
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition

__all__ = ["PartitionHealth", "partition_health"]


class PartitionHealth(NamedTuple):
    """``leader`` is `NO_LEADER` where no broker can serve the partition; ``offline`` are replicas that cannot."""

    leader: int
    offline: list[int]
    error_code: ErrorCode
    passing: bool = False
    """Whether it is otherwise than in the image, and may change without it."""


def partition_health(
    broker: BrokerView, image: BrokersImage, listener: str, topic: str, number: int, state: PartitionImage
) -> PartitionHealth:
    """The health of one partition of an image for clients of ``listener``.

    LEADER_NOT_AVAILABLE without a leader that is registered, LISTENER_NOT_FOUND where the leader has no such listener.
    """
    brokers = image.brokers
    leader: int = state.leader
    served_here = leader == broker.node_id and _is_served(broker, topic, number)
    offline = [
        replica
        for replica in state.replicas
        if (not served_here if replica == leader == broker.node_id else _is_offline(brokers, listener, replica, state))
    ]
    registered = brokers.get(leader)
    if leader == broker.node_id and not served_here:
        return PartitionHealth(NO_LEADER, offline, ErrorCode.LEADER_NOT_AVAILABLE, passing=True)
    if registered is None:
        return PartitionHealth(NO_LEADER, offline, ErrorCode.LEADER_NOT_AVAILABLE)
    if listener not in registered.listeners:
        return PartitionHealth(NO_LEADER, offline, ErrorCode.LISTENER_NOT_FOUND)
    return PartitionHealth(leader, offline, ErrorCode.NONE)


def _is_served(broker: BrokerView, topic: str, number: int) -> bool:
    """Whether this broker can serve a partition that it leads."""
    led = broker.partitions.get(TopicPartition(topic, number))
    if led is None:
        return broker.partitions.due.holds(topic, number) or broker.partitions.has_view(topic, number)
    return led.partition.directory.offline is None


def _is_offline(brokers: Mapping[int, BrokerImage], listener: str, replica: int, state: PartitionImage) -> bool:
    registered = brokers.get(replica)
    return (
        registered is None
        or registered.is_fenced
        or listener not in registered.listeners
        or not is_online(state.directory_of(replica), registered.directories)
    )
