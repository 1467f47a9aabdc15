"""AlterPartitionReassignments (key 45): place partitions on other brokers, or stop doing so (KIP-455).

- 1: whether the replication factor may change (KIP-860).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Message, Struct, field

__all__ = [
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "ReassignablePartition",
    "ReassignablePartitionResponse",
    "ReassignableTopic",
    "ReassignableTopicResponse",
]


class ReassignablePartition(Struct):
    """The brokers that are to hold a partition; None stops a move that is under way."""

    partition_index: Int32
    replicas: list[Int32] | None = field(None)


class ReassignableTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[ReassignablePartition]


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions=(0, 1), flexible=0):
    """The partitions to move."""

    timeout_ms: Int32 = field(60_000)
    allow_replication_factor_change: Bool = field(True, since=1)
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    """Whether a partition's move has begun."""

    partition_index: Int32
    error_code: Int16 = field()
    error_message: str | None = field()


class ReassignableTopicResponse(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions=(0, 1), flexible=0):
    """An answer for each partition."""

    throttle_time_ms: Int32 = field()
    allow_replication_factor_change: Bool = field(True, since=1)
    error_code: Int16 = field()
    error_message: str | None = field()
    responses: list[ReassignableTopicResponse]
