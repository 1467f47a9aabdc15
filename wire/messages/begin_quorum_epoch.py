"""BeginQuorumEpoch (key 53): a new leader of the metadata quorum tells the voters of itself (KIP-595).

- 0: the whole of it. 1: flexible; directory ids, the voter that is meant, the addresses of the leader (KIP-853).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, Uint16, Uuid, field

__all__ = [
    "BeginQuorumEpochPartition",
    "BeginQuorumEpochPartitionResult",
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "BeginQuorumEpochTopic",
    "BeginQuorumEpochTopicResult",
    "LeaderEndpoint",
    "NodeEndpoint",
]


class BeginQuorumEpochPartition(Struct):
    """The leader and its epoch."""

    partition_index: Int32
    voter_directory_id: Uuid = field(since=1)
    leader_id: Int32
    leader_epoch: Int32


class BeginQuorumEpochTopic(Struct):
    """One topic."""

    topic_name: str
    partitions: list[BeginQuorumEpochPartition]


class LeaderEndpoint(Struct):
    """One listener of the leader."""

    name: str = field(since=1)
    host: str = field(since=1)
    port: Uint16 = field(since=1)


class BeginQuorumEpochRequest(Message, api_key=53, versions=(0, 1), flexible=1):
    """A new leader's message; ``voter_id`` is the node that it takes the receiver for."""

    cluster_id: str | None = field()
    voter_id: Int32 = field(-1, since=1)
    topics: list[BeginQuorumEpochTopic]
    leader_endpoints: list[LeaderEndpoint] = field(since=1)


class BeginQuorumEpochPartitionResult(Struct):
    """The leader that the receiver knows, -1 for none, and its epoch."""

    partition_index: Int32
    error_code: Int16 = field()
    leader_id: Int32
    leader_epoch: Int32


class BeginQuorumEpochTopicResult(Struct):
    """One topic."""

    topic_name: str
    partitions: list[BeginQuorumEpochPartitionResult]


class NodeEndpoint(Struct):
    """Where a leader that the answer names is reached."""

    node_id: Int32 = field(since=1)
    host: str = field(since=1)
    port: Uint16 = field(since=1)


class BeginQuorumEpochResponse(Message, api_key=53, versions=(0, 1), flexible=1):
    """Whether the receiver follows."""

    error_code: Int16 = field()
    topics: list[BeginQuorumEpochTopicResult]
    node_endpoints: list[NodeEndpoint] = field(since=1, tag=0)
