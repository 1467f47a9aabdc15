"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, so that clients and followers see lost tails.

- 2: the current leader epoch fences both sides (KIP-320); throttle time.
- 3: the sender: a follower, a consumer, or -2, which may look beyond the high watermark. 4: flexible.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, Struct, field

__all__ = [
    "EpochEndOffset",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "OffsetForLeaderPartition",
    "OffsetForLeaderTopic",
    "OffsetForLeaderTopicResult",
]


class OffsetForLeaderPartition(Struct):
    """The epoch to look up, and the epoch that the caller takes for the current one."""

    partition: Int32
    current_leader_epoch: Int32 = field(-1)
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct):
    """The partitions of one topic."""

    topic: str
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Message, api_key=23, versions=(2, 4), flexible=4):
    """Which epochs to look up."""

    replica_id: Int32 = field(-2, since=3)
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    """The largest epoch not above the one asked for, and the offset behind it; -1 where there is none."""

    error_code: Int16 = field()
    partition: Int32
    leader_epoch: Int32 = field(-1)
    end_offset: Int64 = field(-1)


class OffsetForLeaderTopicResult(Struct):
    """The partitions of one topic."""

    topic: str
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Message, api_key=23, versions=(2, 4), flexible=4):
    """Where the epochs ended."""

    throttle_time_ms: Int32 = field()
    topics: list[OffsetForLeaderTopicResult]
