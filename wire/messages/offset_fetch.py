"""OffsetFetch (key 9): how far groups have read.

- 1: the first version that Kafka 4 takes. 2: all topics by null, an error of the whole. 3: throttle time.
- 4: throttling comes after the answer (KIP-219). 5: leader epochs (KIP-320). 6: flexible.
- 7: offsets of open transactions can be waited for (KIP-447). 8: several groups (KIP-709).
- 9: members of consumer groups with their epoch (KIP-848). 10: topic ids instead of names.
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, Uuid, field

__all__ = [
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopic",
    "OffsetFetchRequestTopics",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponseTopics",
]


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic, for the only group of a request before version 8."""

    name: str
    partition_indexes: list[Int32]


class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic, for one group of several."""

    name: str = field(until=9)
    topic_id: Uuid = field(since=10)
    partition_indexes: list[Int32]


class OffsetFetchRequestGroup(Struct):
    """The offsets wanted of one group; null topics are all. Without member the epoch is -1."""

    group_id: str
    member_id: str | None = field(None, since=9)
    member_epoch: Int32 = field(-1, since=9)
    topics: list[OffsetFetchRequestTopics] | None


class OffsetFetchRequest(Message, api_key=9, versions=(1, 10), flexible=6):
    """The offsets wanted. With ``require_stable`` an offset of an open transaction is an error to try again after."""

    group_id: str = field(until=7)
    topics: list[OffsetFetchRequestTopic] | None = field([], until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = field(since=8)
    require_stable: Bool = field(since=7)


class OffsetFetchResponsePartition(Struct):
    """A committed offset, -1 where there is none; for the only group of an answer before version 8."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(-1, since=5)
    metadata: str | None
    error_code: Int16 = field()


class OffsetFetchResponseTopic(Struct):
    """The partitions of one topic, before version 8."""

    name: str
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    """A committed offset, -1 where there is none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(-1)
    metadata: str | None
    error_code: Int16 = field()


class OffsetFetchResponseTopics(Struct):
    """The partitions of one topic."""

    name: str = field(until=9)
    topic_id: Uuid = field(since=10)
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    """The offsets of one group."""

    group_id: str
    topics: list[OffsetFetchResponseTopics] = field()
    error_code: Int16 = field()


class OffsetFetchResponse(Message, api_key=9, versions=(1, 10), flexible=6):
    """The offsets, of the only group before version 8."""

    throttle_time_ms: Int32 = field(since=3)
    topics: list[OffsetFetchResponseTopic] = field(until=7)
    error_code: Int16 = field(since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = field(since=8)
