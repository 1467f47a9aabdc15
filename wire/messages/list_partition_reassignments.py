"""ListPartitionReassignments (key 46): the moves of partitions that are under way (KIP-455).

- 0: the whole of it.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, field

__all__ = [
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListPartitionReassignmentsTopics",
    "OngoingPartitionReassignment",
    "OngoingTopicReassignment",
]


class ListPartitionReassignmentsTopics(Struct):
    """Some partitions of one topic."""

    name: str
    partition_indexes: list[Int32]


class ListPartitionReassignmentsRequest(Message, api_key=46, versions=(0, 0), flexible=0):
    """Which partitions; null for all."""

    timeout_ms: Int32 = field(60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(None)


class OngoingPartitionReassignment(Struct):
    """One partition that is being moved."""

    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


class OngoingTopicReassignment(Struct):
    """One topic."""

    name: str
    partitions: list[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(Message, api_key=46, versions=(0, 0), flexible=0):
    """The reassignments under way."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    topics: list[OngoingTopicReassignment]
