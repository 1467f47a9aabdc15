"""FetchSnapshot (key 59): a follower of the metadata log reads a snapshot piece by piece (KIP-630).

- 0: the whole of it. 1: the follower's directory id, the addresses of leaders (KIP-853).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, Records, Struct, Uint16, Uuid, field

__all__ = [
    "CurrentLeader",
    "FetchSnapshotPartition",
    "FetchSnapshotPartitionResult",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "FetchSnapshotTopic",
    "FetchSnapshotTopicResult",
    "NodeEndpoint",
    "SnapshotId",
]


class SnapshotId(Struct):
    """The name of a snapshot: the first offset behind it and the epoch of its last record."""

    end_offset: Int64 = field()
    epoch: Int32 = field()


class FetchSnapshotPartition(Struct):
    """The snapshot to read, from a byte position on; ``current_leader_epoch`` is -1 where it is not known."""

    partition: Int32
    current_leader_epoch: Int32
    snapshot_id: SnapshotId
    position: Int64
    replica_directory_id: Uuid = field(since=1, tag=0)


class FetchSnapshotTopic(Struct):
    """One topic."""

    name: str
    partitions: list[FetchSnapshotPartition]


class FetchSnapshotRequest(Message, api_key=59, versions=(0, 1), flexible=0):
    """``max_bytes`` bounds the pieces of all snapshots together."""

    cluster_id: str | None = field(tag=0)
    replica_id: Int32 = field(-1)
    max_bytes: Int32 = field(2**31 - 1)
    topics: list[FetchSnapshotTopic]


class CurrentLeader(Struct):
    """The leader and its epoch; one that is left out reads as leader 0 of epoch 0, which are Kafka's defaults."""

    leader_id: Int32 = field()
    leader_epoch: Int32 = field()


class FetchSnapshotPartitionResult(Struct):
    """A piece of the snapshot: ``position`` in bytes of ``size``. It may begin and end within a batch."""

    index: Int32
    error_code: Int16 = field()
    snapshot_id: SnapshotId
    current_leader: CurrentLeader | None = field(tag=0)
    size: Int64
    position: Int64
    unaligned_records: Records


class FetchSnapshotTopicResult(Struct):
    """One topic."""

    name: str
    partitions: list[FetchSnapshotPartitionResult]


class NodeEndpoint(Struct):
    """Where a leader that the answer names is reached."""

    node_id: Int32 = field(since=1)
    host: str = field(since=1)
    port: Uint16 = field(since=1)


class FetchSnapshotResponse(Message, api_key=59, versions=(0, 1), flexible=0):
    """The pieces."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    topics: list[FetchSnapshotTopicResult]
    node_endpoints: list[NodeEndpoint] = field(since=1, tag=0)
