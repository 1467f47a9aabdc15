"""DescribeQuorum (key 55): the voters and observers of the metadata log, and how far each has come (KIP-595).

- 0: the whole of it. 1: times of the last fetch and of having caught up (KIP-836).
- 2: directory ids, messages with errors, the addresses of the nodes (KIP-853).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, Struct, Uint16, Uuid, field

__all__ = [
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "Listener",
    "Node",
    "PartitionData",
    "ReplicaState",
    "RequestedPartition",
    "RequestedTopic",
    "TopicData",
]


class RequestedPartition(Struct):
    """One partition that is asked about."""

    partition_index: Int32


class RequestedTopic(Struct):
    """One topic that is asked about."""

    topic_name: str
    partitions: list[RequestedPartition]


class DescribeQuorumRequest(Message, api_key=55, versions=(0, 2), flexible=0):
    """The partitions; only that of the metadata log has a quorum."""

    topics: list[RequestedTopic]


class ReplicaState(Struct):
    """How far one replica has come; times are -1 where they are not known."""

    replica_id: Int32
    replica_directory_id: Uuid = field(since=2)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = field(-1, since=1)
    last_caught_up_timestamp: Int64 = field(-1, since=1)


class PartitionData(Struct):
    """The quorum of one partition."""

    partition_index: Int32
    error_code: Int16 = field()
    error_message: str | None = field(since=2)
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


class TopicData(Struct):
    """One topic."""

    topic_name: str
    partitions: list[PartitionData]


class Listener(Struct):
    """Where a node is reached."""

    name: str = field(since=2)
    host: str = field(since=2)
    port: Uint16 = field(since=2)


class Node(Struct):
    """One node of the quorum."""

    node_id: Int32 = field(since=2)
    listeners: list[Listener] = field(since=2)


class DescribeQuorumResponse(Message, api_key=55, versions=(0, 2), flexible=0):
    """The quorums."""

    error_code: Int16 = field()
    error_message: str | None = field(since=2)
    topics: list[TopicData]
    nodes: list[Node] = field(since=2)
