"""DeleteRecords (key 21): move the log start of partitions forward.

- 0: the whole of it. 1: throttling comes after the answer (KIP-219). 2: flexible.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, Struct, field

__all__ = [
    "DeleteRecordsPartition",
    "DeleteRecordsPartitionResult",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteRecordsTopic",
    "DeleteRecordsTopicResult",
]


class DeleteRecordsPartition(Struct):
    """The new first offset, or -1 for the high watermark."""

    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Message, api_key=21, versions=(0, 2), flexible=2):
    """The new log starts."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Struct):
    """Where the log begins now; -1 when an error stands instead."""

    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = field()


class DeleteRecordsTopicResult(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Message, api_key=21, versions=(0, 2), flexible=2):
    """The outcome, partition by partition."""

    throttle_time_ms: Int32 = field()
    topics: list[DeleteRecordsTopicResult]
