"""The controller's answer to requests for elections: the preferred replica leads, or any that is alive.

Sources of rules and texts: Kafka's ``ReplicationControlManager.electLeaders``; KIP-183, KIP-460.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

from stratalog.metadata.controller.election import partition_change
from stratalog.metadata.image.decision import Decision, Failure, failure_of
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import NO_LEADER, PartitionImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import PartitionChangeRecord
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["ElectionResults", "ElectionType", "elect_leaders"]


class ElectionType(IntEnum):
    """The kind of election asked for; the numbers are those of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


ElectionResults = tuple[tuple[TopicPartition, Failure | None], ...]


def elect_leaders(
    image: ClusterImage, election_type: int, partitions: Sequence[TopicPartition] | None
) -> Decision[ElectionResults]:
    """Hold elections. ``None`` is every partition; the result then omits those that need none.

    Raises `KafkaError` INVALID_REQUEST for a type that does not exist.
    """
    try:
        kind = ElectionType(election_type)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}") from error
    records: list[PartitionChangeRecord] = []
    results: list[tuple[TopicPartition, Failure | None]] = []
    for one in _all(image) if partitions is None else partitions:
        try:
            records.append(_elect(image, kind, one))
        except KafkaError as error:
            if partitions is not None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                results.append((one, failure_of(error)))
        else:
            results.append((one, None))
    return Decision(tuple(records), tuple(results))


def _all(image: ClusterImage) -> Iterator[TopicPartition]:
    for name, topic in image.topics.by_name.items():
        for partition in topic.partitions:
            yield TopicPartition(name, partition)


def _elect(image: ClusterImage, kind: ElectionType, one: TopicPartition) -> PartitionChangeRecord:
    """The record that makes another replica the leader. Raises `KafkaError` if no replica can be."""
    topic = image.topics.by_name.get(one.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {one.topic}")
    state = topic.partitions.get(one.partition)
    if state is None:
        why = f"No such partition as {one.topic}-{one.partition}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    if kind is ElectionType.PREFERRED:
        return _elect_preferred(image, topic.topic_id, one.partition, state)
    if state.leader != NO_LEADER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    record = partition_change(
        topic.topic_id,
        one.partition,
        state,
        state.in_sync_replicas,
        image.brokers.is_active,
        unclean_allowed=True,
    )
    if record is None:
        why = "Eligible topic partition leaders are not available."
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, why)
    return record


def _elect_preferred(
    image: ClusterImage, topic_id: Uuid, partition: int, state: PartitionImage
) -> PartitionChangeRecord:
    preferred = state.preferred_replica
    if state.leader == preferred:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if preferred not in state.in_sync_replicas or not image.brokers.is_active(preferred):
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return PartitionChangeRecord(topic_id=topic_id, partition_id=partition, leader=preferred)
