"""The parts that a node plays in an epoch. A node that is not in the voter set plays Unattached or Follower: an observer.

Each role is a value; deadlines are absolute times in ms. Kafka's ``QuorumState`` has the same six.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from stratalog.metadata.raft.messages import (
    NO_LEADER,
    UNKNOWN_OFFSET,
    AddVoterRequest,
    FetchRequest,
    OffsetAndEpoch,
    VoterChange,
)
from stratalog.metadata.raft.replica_progress import ReplicaProgress
from stratalog.metadata.raft.voter_set import Endpoints, ReplicaKey, Voter, VoterSet

__all__ = [
    "Candidate",
    "Follower",
    "Leader",
    "ParkedFetch",
    "PendingChange",
    "Prospective",
    "Resigned",
    "Role",
    "SnapshotFetch",
    "Unattached",
    "Votes",
]


class Votes(Struct, frozen=True):
    """The answers of an election so far, by ids of voters."""

    granted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()

    def with_answer(self, voter_id: int, *, granted: bool) -> Votes:
        """With one answer more. A voter that has granted has granted."""
        if granted:
            return Votes(self.granted | {voter_id}, self.rejected - {voter_id})
        return self if voter_id in self.granted else replace(self, rejected=self.rejected | {voter_id})

    def are_won(self, voters: VoterSet) -> bool:
        """Whether a majority has granted."""
        return len(self.granted & voters.ids) >= voters.majority

    def are_lost(self, voters: VoterSet) -> bool:
        """Whether so many have rejected that no majority can grant any more."""
        return len(voters) - len(self.rejected & voters.ids) < voters.majority

    def missing(self, voters: VoterSet) -> frozenset[int]:
        """The voters whose answers are not known."""
        return voters.ids - self.granted - self.rejected


class Unattached(Struct, frozen=True):
    """In an epoch without a leader, or with one that cannot be reached; a vote may be cast in it."""

    epoch: int
    deadline_ms: int
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None


class Prospective(Struct, frozen=True):
    """Asks for pre-votes: whether an election could be won, without raising the epoch (KIP-996)."""

    epoch: int
    deadline_ms: int
    votes: Votes
    leader_id: int = NO_LEADER
    leader_endpoints: Endpoints = ()
    voted: ReplicaKey | None = None


class Candidate(Struct, frozen=True):
    """Has voted for itself in its epoch and asks the others."""

    epoch: int
    deadline_ms: int
    votes: Votes
    voted: ReplicaKey

    @property
    def leader_id(self) -> int:
        """None yet."""
        return NO_LEADER


class ParkedFetch(Struct, frozen=True):
    """A Fetch without news, held until there is some or its time is over."""

    token: Any
    request: FetchRequest
    deadline_ms: int


class PendingChange(Struct, frozen=True):
    """A change of the voters under way; one at a time."""

    token: Any
    request: VoterChange
    deadline_ms: int
    offset: int = UNKNOWN_OFFSET
    """The offset of its VotersRecord; -1 while the leader still asks the newcomer what it can run."""
    answered: bool = False

    @property
    def newcomer(self) -> AddVoterRequest | None:
        """The request, while the answer of the newcomer is awaited."""
        return self.request if self.offset == UNKNOWN_OFFSET and isinstance(self.request, AddVoterRequest) else None


class Leader(Struct, frozen=True):
    """Elected in its epoch; appends, counts who has what, and gives up when no majority fetches."""

    epoch: int
    leader_id: int
    start_offset: int
    """The offset of its LeaderChange: records below it are committed only together with it (Raft, 5.4.2)."""
    check_quorum_deadline_ms: int
    begin_due_ms: int
    """When voters that have not fetched are next reminded of who leads."""
    granting: tuple[ReplicaKey, ...] = ()
    progress: ReplicaProgress = field(default_factory=ReplicaProgress)
    fetched_voters: frozenset[int] = frozenset()
    """The voters that have fetched since check-quorum was last satisfied."""
    high_watermark: int = UNKNOWN_OFFSET
    """In this epoch; -1 until a record of the epoch itself is committed."""
    parked: tuple[ParkedFetch, ...] = ()
    change: PendingChange | None = None
    told: tuple[Voter, ...] = ()
    """The static voters as they have described themselves in this epoch, by id: all that an upgrade needs."""

    @property
    def voted(self) -> None:
        """A leader's vote is no longer stored."""
        return

    @property
    def is_active(self) -> bool:
        """Whether a record of its own epoch is committed; before that it decides nothing."""
        return self.high_watermark != UNKNOWN_OFFSET


class SnapshotFetch(Struct, frozen=True):
    """A snapshot of the leader's that is being fetched."""

    snapshot: OffsetAndEpoch
    position: int = 0
    """How many bytes have come."""


class Follower(Struct, frozen=True):
    """Fetches from the leader of its epoch."""

    epoch: int
    leader_id: int
    deadline_ms: int
    """When the leader is given up: ``controller.quorum.fetch.timeout.ms`` after its last good answer."""
    endpoints: Endpoints = ()
    voted: ReplicaKey | None = None
    has_fetched: bool = False
    """After a first good answer of this leader no pre-vote is granted: the leader is alive. See `has_ended`, too."""
    has_ended: bool = False
    """The leader has said that it gives its epoch up: what it answered before counts no more as a sign of life."""
    snapshot: SnapshotFetch | None = None
    change_due_ms: int = 0
    """When this node may next ask the leader for a change of its own place among the voters."""
    has_told: bool = False
    """The leader has heard what a static voter has to say of itself."""
    lost: bool = False
    """An observer's last request to the leader has failed: the next one goes to a bootstrap server."""


class Resigned(Struct, frozen=True):
    """Has led this epoch and leads it no more; tells the others, so that they need not wait."""

    epoch: int
    leader_id: int
    deadline_ms: int
    successors: tuple[ReplicaKey, ...] = ()
    acknowledged: frozenset[int] = frozenset()

    @property
    def voted(self) -> None:
        """A leader's vote is no longer stored."""
        return


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned
