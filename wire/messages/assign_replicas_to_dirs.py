"""AssignReplicasToDirs (key 73): a broker tells the controller in which directories its replicas lie (KIP-858).

- 0: the whole of it.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, Struct, Uuid, field

__all__ = [
    "AssignReplicasToDirsRequest",
    "AssignReplicasToDirsResponse",
    "AssignedDirectory",
    "AssignedDirectoryResult",
    "AssignedPartition",
    "AssignedPartitionResult",
    "AssignedTopic",
    "AssignedTopicResult",
]


class AssignedPartition(Struct):
    """One partition."""

    partition_index: Int32


class AssignedTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[AssignedPartition]


class AssignedDirectory(Struct):
    """A directory and the replicas in it."""

    id: Uuid
    topics: list[AssignedTopic]


class AssignReplicasToDirsRequest(Message, api_key=73, versions=(0, 0), flexible=0):
    """The broker, in the epoch of its registration, and where its replicas lie."""

    broker_id: Int32
    broker_epoch: Int64 = field(-1)
    directories: list[AssignedDirectory]


class AssignedPartitionResult(Struct):
    """The outcome for one replica."""

    partition_index: Int32
    error_code: Int16 = field()


class AssignedTopicResult(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[AssignedPartitionResult]


class AssignedDirectoryResult(Struct):
    """The replicas of one directory."""

    id: Uuid
    topics: list[AssignedTopicResult]


class AssignReplicasToDirsResponse(Message, api_key=73, versions=(0, 0), flexible=0):
    """The outcome for each replica."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    directories: list[AssignedDirectoryResult]
