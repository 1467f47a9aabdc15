"""EndQuorumEpoch (key 54): the leader of the metadata quorum resigns (KIP-595).

- 0: the whole of it. 1: flexible; successors by id and directory, the addresses of the leader (KIP-853).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, Uint16, Uuid, field

__all__ = [
    "EndQuorumEpochPartition",
    "EndQuorumEpochPartitionResult",
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "EndQuorumEpochTopic",
    "EndQuorumEpochTopicResult",
    "LeaderEndpoint",
    "NodeEndpoint",
    "PreferredCandidate",
]


class PreferredCandidate(Struct):
    """A voter that should stand for election."""

    candidate_id: Int32 = field(since=1)
    candidate_directory_id: Uuid = field(since=1)


class EndQuorumEpochPartition(Struct):
    """The leader that resigns, its epoch, and who should follow it, the best first."""

    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32
    preferred_successors: list[Int32] = field(until=0)
    preferred_candidates: list[PreferredCandidate] = field(since=1)


class EndQuorumEpochTopic(Struct):
    """One topic."""

    topic_name: str
    partitions: list[EndQuorumEpochPartition]


class LeaderEndpoint(Struct):
    """One listener of the leader."""

    name: str = field(since=1)
    host: str = field(since=1)
    port: Uint16 = field(since=1)


class EndQuorumEpochRequest(Message, api_key=54, versions=(0, 1), flexible=1):
    """A leader's farewell."""

    cluster_id: str | None = field()
    topics: list[EndQuorumEpochTopic]
    leader_endpoints: list[LeaderEndpoint] = field(since=1)


class EndQuorumEpochPartitionResult(Struct):
    """The leader that the receiver knows, -1 for none, and its epoch."""

    partition_index: Int32
    error_code: Int16 = field()
    leader_id: Int32
    leader_epoch: Int32


class EndQuorumEpochTopicResult(Struct):
    """One topic."""

    topic_name: str
    partitions: list[EndQuorumEpochPartitionResult]


class NodeEndpoint(Struct):
    """Where a leader that the answer names is reached."""

    node_id: Int32 = field(since=1)
    host: str = field(since=1)
    port: Uint16 = field(since=1)


class EndQuorumEpochResponse(Message, api_key=54, versions=(0, 1), flexible=1):
    """Whether the receiver has heard of it."""

    error_code: Int16 = field()
    topics: list[EndQuorumEpochTopicResult]
    node_endpoints: list[NodeEndpoint] = field(since=1, tag=0)
