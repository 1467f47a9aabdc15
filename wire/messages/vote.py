"""Vote (key 52): a voter of the metadata quorum asks another for its vote (KIP-595).

- 0: the whole of it. 1: directory ids, the voter that is asked, the addresses of leaders (KIP-853).
- 2: a vote that is only asked in advance (KIP-996).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, Uint16, Uuid, field

__all__ = [
    "NodeEndpoint",
    "VotePartition",
    "VotePartitionResult",
    "VoteRequest",
    "VoteResponse",
    "VoteTopic",
    "VoteTopicResult",
]


class VotePartition(Struct):
    """The candidate and the end of its log: the epoch of the last record, and the offset behind it.

    With ``pre_vote`` the answer is kept nowhere, and ``replica_epoch`` is the one in which the candidate is.
    """

    partition_index: Int32
    replica_epoch: Int32
    replica_id: Int32
    replica_directory_id: Uuid = field(since=1)
    voter_directory_id: Uuid = field(since=1)
    last_offset_epoch: Int32
    last_offset: Int64
    pre_vote: Bool = field(since=2)


class VoteTopic(Struct):
    """One topic."""

    topic_name: str
    partitions: list[VotePartition]


class VoteRequest(Message, api_key=52, versions=(0, 2), flexible=0):
    """A candidate's request; ``voter_id`` is the node that it takes the receiver for."""

    cluster_id: str | None = field()
    voter_id: Int32 = field(-1, since=1)
    topics: list[VoteTopic]


class VotePartitionResult(Struct):
    """The vote. ``leader_id`` is -1 where the leader of ``leader_epoch`` is not known."""

    partition_index: Int32
    error_code: Int16 = field()
    leader_id: Int32
    leader_epoch: Int32
    vote_granted: Bool


class VoteTopicResult(Struct):
    """One topic."""

    topic_name: str
    partitions: list[VotePartitionResult]


class NodeEndpoint(Struct):
    """Where a leader that the answer names is reached."""

    node_id: Int32 = field(since=1)
    host: str = field(since=1)
    port: Uint16 = field(since=1)


class VoteResponse(Message, api_key=52, versions=(0, 2), flexible=0):
    """The votes."""

    error_code: Int16 = field()
    topics: list[VoteTopicResult]
    node_endpoints: list[NodeEndpoint] = field(since=1, tag=0)
