"""OffsetDelete (key 47): forget committed offsets of a group in topics that it reads no longer (KIP-496)."""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, field

__all__ = [
    "OffsetDeleteRequest",
    "OffsetDeleteRequestPartition",
    "OffsetDeleteRequestTopic",
    "OffsetDeleteResponse",
    "OffsetDeleteResponsePartition",
    "OffsetDeleteResponseTopic",
]


class OffsetDeleteRequestPartition(Struct):
    """One partition."""

    partition_index: Int32


class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Message, api_key=47, versions=(0, 0)):
    """Which offsets."""

    group_id: str
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    """How it went with one partition."""

    partition_index: Int32
    error_code: Int16 = field()


class OffsetDeleteResponseTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Message, api_key=47, versions=(0, 0)):
    """How it went; with an error of the whole there are no topics."""

    error_code: Int16 = field()
    throttle_time_ms: Int32 = field()
    topics: list[OffsetDeleteResponseTopic] = field()
