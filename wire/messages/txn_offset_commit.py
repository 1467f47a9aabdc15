"""TxnOffsetCommit (key 28): keep how far a group has read, if the producer's transaction commits (KIP-98).

- 1: throttling comes after the answer (KIP-219). 2: leader epochs (KIP-320).
- 3: member, instance and generation, so that a former member can be recognised (KIP-447); flexible.
- 4: TRANSACTION_ABORTABLE may be answered. 5: the group joins the transaction without AddOffsetsToTxn (KIP-890).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, Struct, field

__all__ = [
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitRequestPartition",
    "TxnOffsetCommitRequestTopic",
    "TxnOffsetCommitResponse",
    "TxnOffsetCommitResponsePartition",
    "TxnOffsetCommitResponseTopic",
]


class TxnOffsetCommitRequestPartition(Struct):
    """The next offset to be read of a partition; ``committed_metadata`` is the client's own text beside it."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(-1, since=2)
    committed_metadata: str | None


class TxnOffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Message, api_key=28, versions=(0, 5), flexible=3):
    """The offsets to keep, and the transaction they belong to. The generation is -1 for a client that is no member."""

    transactional_id: str
    group_id: str
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field(-1, since=3)
    member_id: str = field(since=3)
    group_instance_id: str | None = field(None, since=3)
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    """How it went with one partition."""

    partition_index: Int32
    error_code: Int16 = field()


class TxnOffsetCommitResponseTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Message, api_key=28, versions=(0, 5), flexible=3):
    """How it went with each partition; there is no error of the whole."""

    throttle_time_ms: Int32 = field()
    topics: list[TxnOffsetCommitResponseTopic]
