"""CreatePartitions (key 37): give topics more partitions, or with ``validate_only`` say whether that would work.

- 0: the whole of it. 1: throttling comes after the answer (KIP-219). 2: flexible.
- 3: THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Message, Struct, field

__all__ = [
    "CreatePartitionsAssignment",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreatePartitionsTopic",
    "CreatePartitionsTopicResult",
]


class CreatePartitionsAssignment(Struct):
    """The replicas of one new partition, the preferred leader first."""

    broker_ids: list[Int32]


class CreatePartitionsTopic(Struct):
    """One topic and how many partitions it has in the end; null assignments let the broker choose."""

    name: str
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None


class CreatePartitionsRequest(Message, api_key=37, versions=(0, 3), flexible=2):
    """The topics."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


class CreatePartitionsTopicResult(Struct):
    """The outcome for one topic."""

    name: str
    error_code: Int16 = field()
    error_message: str | None = field(None)


class CreatePartitionsResponse(Message, api_key=37, versions=(0, 3), flexible=2):
    """The outcome for each topic."""

    throttle_time_ms: Int32 = field()
    results: list[CreatePartitionsTopicResult]
