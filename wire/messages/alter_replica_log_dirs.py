"""AlterReplicaLogDirs (key 34): move replicas to other log directories of their broker (KIP-113).

- 1: throttling comes after the answer (KIP-219). 2: flexible.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, field

__all__ = [
    "AlterReplicaLogDir",
    "AlterReplicaLogDirPartitionResult",
    "AlterReplicaLogDirTopic",
    "AlterReplicaLogDirTopicResult",
    "AlterReplicaLogDirsRequest",
    "AlterReplicaLogDirsResponse",
]


class AlterReplicaLogDirTopic(Struct):
    """Partitions of one topic."""

    name: str
    partitions: list[Int32]


class AlterReplicaLogDir(Struct):
    """A directory, by its absolute path, and the partitions that belong in it."""

    path: str
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(Message, api_key=34, versions=(1, 2), flexible=2):
    """The replicas to move, by directory."""

    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    """Whether a partition's move has begun."""

    partition_index: Int32
    error_code: Int16 = field()


class AlterReplicaLogDirTopicResult(Struct):
    """The partitions of one topic."""

    topic_name: str
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Message, api_key=34, versions=(1, 2), flexible=2):
    """An answer for each partition."""

    throttle_time_ms: Int32 = field()
    results: list[AlterReplicaLogDirTopicResult]
