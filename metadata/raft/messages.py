"""Everything that nodes of the quorum say to each other, as values.

They are the messages of KIP-595, KIP-630, KIP-853, KIP-996 and KIP-1166 without their wire form: one topic, one
partition, ids resolved. Epochs and offsets are ints; -1 stands for "not known", as on the wire.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import Struct

from stratalog.metadata.raft.voter_set import Endpoints, ReplicaKey, Voter, VoterSet
from stratalog.wire.errors import ErrorCode

__all__ = [
    "NO_LEADER",
    "NO_SNAPSHOT",
    "UNKNOWN_OFFSET",
    "AddVoterRequest",
    "Answer",
    "ApiVersionsAnswer",
    "ApiVersionsRequest",
    "Batch",
    "BeginQuorumEpochRequest",
    "ControlRecord",
    "EndQuorumEpochRequest",
    "EpochAnswer",
    "FetchAnswer",
    "FetchRequest",
    "FetchSnapshotAnswer",
    "FetchSnapshotRequest",
    "KRaftVersion",
    "LeaderChange",
    "OffsetAndEpoch",
    "RemoveVoterRequest",
    "Request",
    "UpdateVoterRequest",
    "VoteAnswer",
    "VoteRequest",
    "VoterChange",
    "VoterChangeAnswer",
    "Voters",
]

NO_LEADER: Final = -1
UNKNOWN_OFFSET: Final = -1


class OffsetAndEpoch(NamedTuple):
    """An end offset (exclusive) and the epoch of the record before it; also the name of a snapshot."""

    offset: int
    epoch: int


NO_SNAPSHOT: Final = OffsetAndEpoch(0, 0)


class LeaderChange(Struct, frozen=True):
    """The first record of an epoch: LeaderChangeMessage."""

    leader_id: int
    voters: tuple[ReplicaKey, ...] = ()
    granting: tuple[ReplicaKey, ...] = ()


class KRaftVersion(Struct, frozen=True):
    """The level of ``kraft.version`` from here on: KRaftVersionRecord."""

    level: int


class Voters(Struct, frozen=True):
    """The voters from here on: VotersRecord."""

    voters: VoterSet


ControlRecord = LeaderChange | KRaftVersion | Voters


class Batch(Struct, frozen=True):
    """Records ``[base_offset, end_offset)`` of one epoch: either control records or data of the controller."""

    base_offset: int
    end_offset: int
    epoch: int
    control: tuple[ControlRecord, ...] = ()
    data: Any = None
    """Opaque here: the driver's own form of the records."""


class VoteRequest(Struct, frozen=True):
    """A candidate asks for a vote in ``epoch``, or, with ``pre_vote``, whether it would get one in the next."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    """The replica that is asked: a vote belongs to a disk, not to an id."""
    last_epoch: int
    end_offset: int
    pre_vote: bool = False
    cluster_id: str | None = None


class VoteAnswer(Struct, frozen=True):
    """The vote, or why it was not even considered."""

    error: ErrorCode
    epoch: int
    leader_id: int = NO_LEADER
    endpoints: Endpoints = ()
    granted: bool = False


class BeginQuorumEpochRequest(Struct, frozen=True):
    """A leader makes itself known to a voter that has not fetched from it."""

    epoch: int
    leader_id: int
    voter: ReplicaKey
    endpoints: Endpoints = ()
    cluster_id: str | None = None


class EndQuorumEpochRequest(Struct, frozen=True):
    """A leader gives up; ``successors`` are the voters by how much of its log they have, most first."""

    epoch: int
    leader_id: int
    successors: tuple[ReplicaKey, ...] = ()
    cluster_id: str | None = None


class EpochAnswer(Struct, frozen=True):
    """The answer to BeginQuorumEpoch and EndQuorumEpoch."""

    error: ErrorCode
    epoch: int
    leader_id: int = NO_LEADER
    endpoints: Endpoints = ()


class FetchRequest(Struct, frozen=True):
    """A replica asks for the records from its log end on. The offset says what it has: a voter has synced it."""

    epoch: int
    replica: ReplicaKey
    offset: int
    last_epoch: int
    high_watermark: int = UNKNOWN_OFFSET
    """The asker's: an answer is due at once if the leader's is higher (KIP-1166)."""
    max_wait_ms: int = 0
    cluster_id: str | None = None


class FetchAnswer(Struct, frozen=True):
    """Records, or the place where the asker's log parts from the leader's, or the snapshot to begin with."""

    error: ErrorCode
    epoch: int
    leader_id: int = NO_LEADER
    endpoints: Endpoints = ()
    high_watermark: int = UNKNOWN_OFFSET
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    batches: tuple[Batch, ...] = ()


class FetchSnapshotRequest(Struct, frozen=True):
    """A replica asks for the bytes of a snapshot from ``position`` on."""

    epoch: int
    replica: ReplicaKey
    snapshot: OffsetAndEpoch
    position: int
    cluster_id: str | None = None


class FetchSnapshotAnswer(Struct, frozen=True):
    """Bytes ``[position, position + len(data))`` of the ``size`` that the snapshot has."""

    error: ErrorCode
    epoch: int
    leader_id: int = NO_LEADER
    endpoints: Endpoints = ()
    snapshot: OffsetAndEpoch = NO_SNAPSHOT
    size: int = 0
    position: int = 0
    data: bytes = b""


class AddVoterRequest(Struct, frozen=True):
    """An administrator, or the node itself, wants one voter more."""

    voter: Voter
    ack_when_committed: bool = True
    """False: answer as soon as the record is appended (version 1, for nodes that join by themselves)."""
    cluster_id: str | None = None


class RemoveVoterRequest(Struct, frozen=True):
    """One voter less."""

    voter: ReplicaKey
    cluster_id: str | None = None


class UpdateVoterRequest(Struct, frozen=True):
    """A voter listens elsewhere, or can run other versions."""

    epoch: int
    voter: Voter
    cluster_id: str | None = None


VoterChange = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest


class VoterChangeAnswer(Struct, frozen=True):
    """The answer to all three changes of voters; ``message`` explains an error."""

    error: ErrorCode
    message: str = ""
    epoch: int = -1
    leader_id: int = NO_LEADER
    endpoints: Endpoints = ()


class ApiVersionsRequest(Struct, frozen=True):
    """The leader asks a node that shall become a voter what it can run."""


class ApiVersionsAnswer(Struct, frozen=True):
    """``kraft_versions`` is the range of ``kraft.version`` among the node's supported features."""

    error: ErrorCode
    kraft_versions: tuple[int, int] | None = None


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | VoterChange
    | ApiVersionsRequest
)
Answer = VoteAnswer | EpochAnswer | FetchAnswer | FetchSnapshotAnswer | VoterChangeAnswer | ApiVersionsAnswer
