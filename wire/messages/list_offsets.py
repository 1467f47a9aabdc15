"""ListOffsets (key 2): the offset for a time, or one of the ends of the log.

A timestamp below zero names an end: -1 latest, -2 earliest, -3 the record with the largest timestamp (7),
-4 earliest on local disk (8), -5 latest in remote storage (9), -6 earliest not yet uploaded (11).

- 1: one offset with its timestamp. 2: isolation level, throttle time. 3: throttling comes after the answer (KIP-219).
- 4: leader epochs (KIP-320). 5: OFFSET_NOT_AVAILABLE may be answered (KIP-207). 6: flexible.
- 7: largest timestamp (KIP-734). 8: local log start (KIP-405). 9: remote end (KIP-1005).
- 10: a timeout, since remote storage may have to be asked (KIP-1075). 11: earliest pending upload (KIP-1023).
"""

from __future__ import annotations

from stratalog.wire.schema import Int8, Int16, Int32, Int64, Message, Struct, field

__all__ = [
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
]


class ListOffsetsPartition(Struct):
    """One look-up, in milliseconds or as one of the names below zero."""

    partition_index: Int32
    current_leader_epoch: Int32 = field(-1, since=4)
    timestamp: Int64


class ListOffsetsTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Message, api_key=2, versions=(1, 11), flexible=6):
    """The partitions and timestamps to look up. ``replica_id`` is -1 for a client; ``isolation_level``: 0
    read_uncommitted, 1 read_committed.
    """

    replica_id: Int32
    isolation_level: Int8 = field(since=2)
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = field(since=10)


class ListOffsetsPartitionResponse(Struct):
    """The first record at or after the time asked for; -1 everywhere when there is none."""

    partition_index: Int32
    error_code: Int16 = field()
    timestamp: Int64 = field(-1)
    offset: Int64 = field(-1)
    leader_epoch: Int32 = field(-1, since=4)


class ListOffsetsTopicResponse(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Message, api_key=2, versions=(1, 11), flexible=6):
    """The offsets found."""

    throttle_time_ms: Int32 = field(since=2)
    topics: list[ListOffsetsTopicResponse]
