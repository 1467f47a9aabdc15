"""OffsetCommit (key 8): keep how far a group has read.

- 2: the first version that Kafka 4 takes; the client may choose how long the offset is kept, until 4.
- 3: throttle time. 4: throttling comes after the answer (KIP-219). 5: how long is the broker's matter (KIP-211).
- 6: leader epochs (KIP-320). 7: instance ids (KIP-345). 8: flexible.
- 9: members of consumer groups commit too, with their epoch (KIP-848). 10: topic ids instead of names.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, Struct, Uuid, field

__all__ = [
    "OffsetCommitRequest",
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitResponse",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
]


class OffsetCommitRequestPartition(Struct):
    """The next offset to be read of a partition; ``committed_metadata`` is the client's own text beside it."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(-1, since=6)
    committed_metadata: str | None


class OffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = field(until=9)
    topic_id: Uuid = field(since=10)
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Message, api_key=8, versions=(2, 10), flexible=8):
    """The offsets to keep. The generation or epoch is -1 for a client that is no
    member; ``retention_time_ms`` -1 is the broker's retention.
    """

    group_id: str
    generation_id_or_member_epoch: Int32 = field(-1)
    member_id: str
    group_instance_id: str | None = field(None, since=7)
    retention_time_ms: Int64 = field(-1, until=4)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    """How it went with one partition."""

    partition_index: Int32
    error_code: Int16 = field()


class OffsetCommitResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = field(until=9)
    topic_id: Uuid = field(since=10)
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Message, api_key=8, versions=(2, 10), flexible=8):
    """How it went with each partition; there is no error of the whole."""

    throttle_time_ms: Int32 = field(since=3)
    topics: list[OffsetCommitResponseTopic]
