"""DescribeTopicPartitions (key 75): partitions of topics, page by page (KIP-966).

``cursor``: where a page begins, and where the next one does; null for the first page and after the last one.

- 0: the whole of it.
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Message, Struct, Uuid, field

__all__ = [
    "Cursor",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTopicPartitionsResponsePartition",
    "DescribeTopicPartitionsResponseTopic",
    "TopicRequest",
]


class TopicRequest(Struct):
    """One topic."""

    name: str


class Cursor(Struct):
    """A partition from which on pages go on."""

    topic_name: str
    partition_index: Int32


class DescribeTopicPartitionsRequest(Message, api_key=75, versions=(0, 0), flexible=0):
    """The topics, none of them named for all; at most so many partitions are answered at once."""

    topics: list[TopicRequest]
    response_partition_limit: Int32 = field(2000)
    cursor: Cursor | None = field(None)


class DescribeTopicPartitionsResponsePartition(Struct):
    """One partition. Null eligible leaders: the cluster does not keep account of them."""

    error_code: Int16 = field()
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = field(None)
    last_known_elr: list[Int32] | None = field(None)
    offline_replicas: list[Int32] = field()


class DescribeTopicPartitionsResponseTopic(Struct):
    """One topic with those of its partitions that are on this page."""

    error_code: Int16 = field()
    name: str | None
    topic_id: Uuid = field()
    is_internal: Bool = field()
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = field(-2147483648)


class DescribeTopicPartitionsResponse(Message, api_key=75, versions=(0, 0), flexible=0):
    """One page."""

    throttle_time_ms: Int32 = field()
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = field(None)
