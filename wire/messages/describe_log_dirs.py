"""DescribeLogDirs (key 35): what lies in a broker's log directories (KIP-113).

- 1: throttling comes after the answer (KIP-219). 2: flexible. 3: an error for the whole answer.
- 4: size and room of the volume (KIP-827). 5: whether a directory takes no new partitions.
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, field

__all__ = [
    "DescribableLogDirTopic",
    "DescribeLogDirsPartition",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeLogDirsResult",
    "DescribeLogDirsTopic",
]


class DescribableLogDirTopic(Struct):
    """Some partitions of one topic."""

    topic: str
    partitions: list[Int32]


class DescribeLogDirsRequest(Message, api_key=35, versions=(1, 5), flexible=2):
    """Which partitions; null for all."""

    topics: list[DescribableLogDirTopic] | None


class DescribeLogDirsPartition(Struct):
    """The bytes of one partition's files, and how far a copy that is still being made lags."""

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


class DescribeLogDirsTopic(Struct):
    """One topic."""

    name: str
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    """One log directory; -1 bytes where they are not known."""

    error_code: Int16 = field()
    log_dir: str
    topics: list[DescribeLogDirsTopic]
    total_bytes: Int64 = field(-1, since=4)
    usable_bytes: Int64 = field(-1, since=4)
    is_cordoned: Bool = field(since=5)


class DescribeLogDirsResponse(Message, api_key=35, versions=(1, 5), flexible=2):
    """The log directories."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field(since=3)
    results: list[DescribeLogDirsResult]
