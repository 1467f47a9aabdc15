"""DescribeProducers (key 61): the producers that a partition remembers, and their open transactions (KIP-664)."""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, Struct, field

__all__ = [
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "PartitionResponse",
    "ProducerState",
    "TopicRequest",
    "TopicResponse",
]


class TopicRequest(Struct):
    """Partitions of one topic."""

    name: str
    partition_indexes: list[Int32]


class DescribeProducersRequest(Message, api_key=61, versions=(0, 0), flexible=0):
    """Which partitions."""

    topics: list[TopicRequest]


class ProducerState(Struct):
    """One producer; ``current_txn_start_offset`` is -1 unless a transaction is open."""

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = field(-1)
    last_timestamp: Int64 = field(-1)
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = field(-1)


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: Int32
    error_code: Int16 = field()
    error_message: str | None = field(None)
    active_producers: list[ProducerState] = field()


class TopicResponse(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[PartitionResponse]


class DescribeProducersResponse(Message, api_key=61, versions=(0, 0), flexible=0):
    """The producers that each partition remembers."""

    throttle_time_ms: Int32 = field()
    topics: list[TopicResponse]
