"""Produce (key 0): append record batches to partitions.

The version says what a batch may hold and what the answer says:

- 3: batches of format v2; the transactional id. The log append time is in every answer (since 2).
- 4: the client understands KAFKA_STORAGE_ERROR.
- 5: the answer names the log start offset.
- 7: batches may be compressed with zstd (KIP-110).
- 8: which records made a batch fail, and a message about it (KIP-467).
- 9: flexible.
- 10: the new leader and its endpoint as tagged fields when this broker no longer leads (KIP-951).
- 11: TRANSACTION_ABORTABLE may be answered (KIP-890).
- 12: a transactional batch enlists its partition by itself (KIP-890, transactions v2).
- 13: topics are named by id (KIP-516).

Versions 0 to 2 are announced because of KAFKA-18659 and never parsed.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, ReceivedRecords, Struct, Uuid, field

__all__ = [
    "BatchIndexAndErrorMessage",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "ProduceRequest",
    "ProduceResponse",
    "TopicProduceData",
    "TopicProduceResponse",
]


class PartitionProduceData(Struct):
    """The batches for one partition: a view of the frame they came in."""

    index: Int32
    records: ReceivedRecords | None


class TopicProduceData(Struct):
    """The batches for one topic."""

    name: str = field(until=12)
    topic_id: Uuid = field(since=13)
    partition_data: list[PartitionProduceData]


class ProduceRequest(Message, api_key=0, versions=(3, 13), flexible=9):
    """Batches to append. ``acks``: 0 no answer at all, 1 the leader has it, -1 every in-sync replica has it."""

    transactional_id: str | None = field()
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    """One record that made its batch fail, by its index in the batch."""

    batch_index: Int32
    batch_index_error_message: str | None = field()


class LeaderIdAndEpoch(Struct):
    """The partition's leader now; -1 where that is not known."""

    leader_id: Int32 = field(-1)
    leader_epoch: Int32 = field(-1)


class PartitionProduceResponse(Struct):
    """The outcome for one partition. ``log_append_time_ms`` is -1 where the producer's own times were kept."""

    index: Int32
    error_code: Int16 = field()
    base_offset: Int64
    log_append_time_ms: Int64 = field(-1)
    log_start_offset: Int64 = field(-1, since=5)
    record_errors: list[BatchIndexAndErrorMessage] = field(since=8)
    error_message: str | None = field(since=8)
    current_leader: LeaderIdAndEpoch | None = field(since=10, tag=0)


class TopicProduceResponse(Struct):
    """The outcomes within one topic."""

    name: str = field(until=12)
    topic_id: Uuid = field(since=13)
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct):
    """How to reach a node named as current leader."""

    node_id: Int32
    host: str
    port: Int32
    rack: str | None = field()


class ProduceResponse(Message, api_key=0, versions=(3, 13), flexible=9):
    """The outcome, partition by partition."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = field()
    node_endpoints: list[NodeEndpoint] = field(since=10, tag=0)
