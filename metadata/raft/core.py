"""The memory of one node of the quorum, and the few ways in which it changes; the rules stand in the other files.

`RaftCore.become` is the only way into another role. It stores epoch, leader and vote before anything that follows
from them leaves, and answers all that has waited for a leader that leads no more.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from stratalog.metadata.quorum.quorum_state import NO_VOTER, QuorumState
from stratalog.metadata.raft.actions import (
    Action,
    Append,
    Committed,
    Flush,
    LostLeadership,
    Reply,
    Send,
    Stop,
    StoreQuorumState,
    Truncate,
)
from stratalog.metadata.raft.log_view import LogView
from stratalog.metadata.raft.messages import (
    NO_LEADER,
    Batch,
    EpochAnswer,
    FetchAnswer,
    FetchSnapshotAnswer,
    Request,
    VoteAnswer,
    VoterChangeAnswer,
)
from stratalog.metadata.raft.states import Follower, Leader, Prospective, Resigned, Role, Unattached, Votes
from stratalog.metadata.raft.timeouts import RaftTimeouts
from stratalog.metadata.raft.voter_set import Endpoints, ReplicaKey, VoterSet
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import ZERO_UUID

__all__ = ["Identity", "RaftCore", "durable_state"]


class Identity(Struct, frozen=True):
    """One node, for as long as its process runs."""

    key: ReplicaKey
    endpoints: Endpoints = ()
    cluster_id: str | None = None
    kraft_versions: tuple[int, int] = (0, 1)
    can_become_voter: bool = True
    """Whether the process is a controller. Such a node syncs before it fetches also while it is an observer: once it
    is added, the leader counts the fetches that it has made before."""
    auto_join: bool = False
    """``controller.quorum.auto.join.enable``: a controller that is no voter asks the leader to become one."""


def durable_state(role: Role, log: LogView) -> QuorumState:
    """The part of a role that a restart has to find again, in the form that the log's ``kraft.version`` wants."""
    voted = role.voted
    version = min(log.kraft_version, 1)
    return QuorumState(
        leader_epoch=role.epoch,
        leader_id=role.leader_id,
        voted_id=NO_VOTER if voted is None else voted.id,
        voted_directory_id=voted.directory_id if voted is not None and version else ZERO_UUID,
        voters=() if version else tuple(sorted(log.voters.ids)),
        data_version=version,
    )


class RaftCore:
    """Role, log and high watermark of one node, and its requests that are not answered yet."""

    def __init__(self, identity: Identity, timeouts: RaftTimeouts, log: LogView, stored: QuorumState | None) -> None:
        self.identity: Final = identity
        self.timeouts: Final = timeouts
        self.log = log
        self.stored = stored
        epoch = max(log.last_epoch, stored.leader_epoch if stored is not None else 0)
        self.role: Role = Unattached(epoch, deadline_ms=0)
        self.high_watermark = log.snapshots[-1].offset if log.snapshots else 0
        """The records below it are committed: what a snapshot has, and what a leader has said since the start."""
        self.in_flight: dict[int, Request] = {}
        """By peer, one request at a time."""
        self.backoff_until_ms: dict[int, int] = {}
        self.sync_asked = log.flushed_offset
        self.truncations = 0
        self.is_loading = False
        """A snapshot is taking the place of the log: until it has, this node neither fetches nor stands."""
        self.refused_ms: dict[int, int] = {}
        """When the hosts of peers refused the last connection; without those that were heard of since."""
        self.shutdown_deadline_ms: int | None = None
        self.stopped = False
        self.now_ms = 0
        self.jitter = 0.0
        self.actions: list[Action] = []

    # -- what is known -------------------------------------------------------------------------------------------------

    @property
    def me(self) -> ReplicaKey:
        """The replica of this node."""
        return self.identity.key

    @property
    def epoch(self) -> int:
        """The epoch this node is in."""
        return self.role.epoch

    @property
    def voters(self) -> VoterSet:
        """The voters that count now."""
        return self.log.voters

    @property
    def is_voter(self) -> bool:
        """Whether this replica, by id and directory, is a voter; else it is an observer."""
        return self.voters.has(self.me)

    @property
    def may_stand(self) -> bool:
        """Whether this node stands for election: as a voter, or while its own removal may be uncommitted.

        The removal may be in its log alone, and the other voters unable to elect anyone without it: it then wins by
        their votes, its own not counted, commits the removal and resigns (Ongaro's dissertation, 4.2.2).
        """
        if self.is_voter:
            return True
        at = self.log.voters_offset
        return at >= self.high_watermark and self.log.voters_at(at).has(self.me)

    @property
    def majority_is_gone(self) -> bool:
        """Whether so many voters' processes are gone that no leader can be elected.

        A refusal counts for a while: a follower hears no more of a voter that is back.
        """
        since_ms = self.now_ms - self.timeouts.refused_ms
        gone = {peer for peer, at_ms in self.refused_ms.items() if at_ms > since_ms} & self.voters.ids
        return bool(gone) and len(self.voters) - len(gone) < self.voters.majority

    @property
    def leader_endpoints(self) -> Endpoints:
        """Where the leader of this epoch listens, as far as it is known."""
        if self.role.leader_id == self.me.id:
            return self.identity.endpoints
        if isinstance(self.role, Follower):
            return self.role.endpoints
        return self.voters.endpoints_of(self.role.leader_id)

    def place_behind(self, leader_id: int) -> tuple[int, int]:
        """The place of this voter among those that could take a leader's place, and how many they are.

        They are counted round from the leader's id, so that each node has the same order without a word about it. One
        that is no voter, and may stand all the same, shares the last place.
        """
        others = sorted(self.voters.ids - {leader_id}, key=lambda voter_id: (voter_id < leader_id, voter_id))
        count = max(len(others), 1)
        return (others.index(self.me.id) if self.me.id in others else count - 1), count

    def follower_deadline_ms(self, leader_id: int) -> int:
        """When a leader that has just been heard of is given up."""
        if not self.may_stand:
            return self.now_ms + self.timeouts.fetch_ms
        return self.now_ms + self.timeouts.follower_timeout_ms(*self.place_behind(leader_id))

    def election_deadline_ms(self) -> int:
        """When an election that begins now is given up."""
        return self.now_ms + self.timeouts.election_timeout_ms(self.jitter)

    def is_foreign(self, cluster_id: str | None) -> bool:
        """Whether a request is meant for another cluster; one that names none is for any."""
        return None not in (cluster_id, self.identity.cluster_id) and cluster_id != self.identity.cluster_id

    # -- roles ---------------------------------------------------------------------------------------------------------

    def become(self, role: Role) -> None:
        """Take another role, durably, before anything that is said in it."""
        before, self.role = self.role, role
        self.in_flight.clear()
        self.store()
        if isinstance(before, Leader):
            self._take_down(before)

    def store(self) -> None:
        """Have epoch, leader and vote on disk before any later action."""
        state = durable_state(self.role, self.log)
        if state != self.stored:
            self.stored = state
            self.emit(StoreQuorumState(state))

    def detach(self, epoch: int, *, voted: ReplicaKey | None = None, leader_id: int = NO_LEADER) -> None:
        """Be in an epoch whose leader is not known or cannot be reached."""
        self.become(Unattached(epoch, self.election_deadline_ms(), leader_id, voted))

    def follow(self, epoch: int, leader_id: int, endpoints: Endpoints = ()) -> None:
        """Follow the leader of an epoch; a vote of the same epoch is kept. Without an address it has to be asked for."""
        voted = self.role.voted if epoch == self.epoch else None
        known = endpoints or self.voters.endpoints_of(leader_id)
        if known:
            due_ms = self.now_ms + self.timeouts.fetch_ms
            deadline_ms = self.follower_deadline_ms(leader_id)
            self.become(Follower(epoch, leader_id, deadline_ms, known, voted, change_due_ms=due_ms))
        else:
            self.detach(epoch, voted=voted, leader_id=leader_id)

    def stand(self) -> None:
        """Ask whether an election could be won: a node that cannot reach a majority raises no epoch (KIP-996)."""
        role, endpoints, voted = self.role, self.leader_endpoints, self.role.voted
        votes, leader_id = Votes(granted=frozenset({self.me.id})), role.leader_id
        if leader_id == self.me.id:  # it has led this epoch, so no other node may have its vote in it
            leader_id, voted = NO_LEADER, self.me
        self.become(Prospective(role.epoch, self.election_deadline_ms(), votes, leader_id, endpoints, voted))

    def heed(self, epoch: int, leader_id: int, endpoints: Endpoints) -> bool:
        """Take in epoch and leader of another node's message; whether the rest of it is void by that.

        An older epoch is void, a higher one ends whatever this node was. A second leader in one epoch must not be:
        the process stops. A node that is said to lead, and does not know of it, has lost its disk: it believes the
        epoch only.
        """
        mine = self.role
        if epoch < mine.epoch:
            return True
        leads = leader_id if leader_id != self.me.id or isinstance(mine, Leader | Resigned) else NO_LEADER
        if epoch > mine.epoch:
            if leader_id in (NO_LEADER, self.me.id):
                self.detach(epoch)
            else:
                self.follow(epoch, leader_id, endpoints)
            return True
        if NO_LEADER not in (leads, mine.leader_id) and leads != mine.leader_id:
            self.stop(f"epoch {epoch} has two leaders, {mine.leader_id} and {leads}")
            return True
        if leads != NO_LEADER and (mine.leader_id == NO_LEADER or (isinstance(mine, Unattached) and endpoints)):
            self.follow(epoch, leads, endpoints)
            return True
        return False

    def _take_down(self, leader: Leader) -> None:
        """Answer everyone who has waited for a leader that leads no more."""
        if leader.is_active:
            self.emit(LostLeadership(leader.epoch))
        for parked in leader.parked:
            self.reply(parked.token, self.fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        if leader.change is not None and not leader.change.answered:
            self.reply(
                leader.change.token, self.change_answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader has changed")
            )

    # -- the log -------------------------------------------------------------------------------------------------------

    def append(self, batches: tuple[Batch, ...]) -> None:
        """Append batches that follow the log's end."""
        before = self.log
        self.log = before.appended(batches)
        self.emit(Append(batches))
        if (before.kraft_version, before.voters) != (self.log.kraft_version, self.log.voters):
            self.store()

    def truncate(self, offset: int) -> None:
        """Drop the records from ``offset`` on. None of them may be committed."""
        if offset < self.high_watermark:
            self.stop(f"the leader's log parts at offset {offset}, and {self.high_watermark} records are committed")
        elif offset < self.log.end_offset:
            self.log = self.log.truncated(offset)
            self.truncations += 1
            self.sync_asked = min(self.sync_asked, offset)
            self.emit(Truncate(offset))

    @property
    def syncs(self) -> bool:
        """Whether this node's fetch offset may be counted, now or once it is a voter: it has to be on disk first."""
        return self.is_voter or self.identity.can_become_voter

    def request_flush(self) -> None:
        """Have everything in the log synced, once."""
        if self.sync_asked < self.log.end_offset:
            self.sync_asked = self.log.end_offset
            self.emit(Flush(self.log.end_offset, self.truncations))

    def commit(self, high_watermark: int) -> None:
        """Take in that records below are committed."""
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self.emit(Committed(high_watermark))

    # -- messages ------------------------------------------------------------------------------------------------------

    def emit(self, action: Action) -> None:
        """Do something, after all that was emitted before."""
        self.actions.append(action)

    def may_send(self, peer: int) -> bool:
        """Whether a peer owes no answer, and its last failure lies far enough back."""
        return peer not in self.in_flight and self.backoff_until_ms.get(peer, self.now_ms) <= self.now_ms

    def send(self, peer: int, request: Request, endpoints: Endpoints = ()) -> None:
        """Send a request."""
        self.in_flight[peer] = request
        self.emit(Send(peer, request, endpoints or self.voters.endpoints_of(peer)))

    def is_expected(self, peer: int, request: Request) -> bool:
        """Whether this is the request whose answer is awaited; it is no longer."""
        if self.in_flight.get(peer) != request:
            return False
        del self.in_flight[peer]
        return True

    def back_off(self, peer: int) -> None:
        """Leave a peer alone for a while. Waits that are over are forgotten: peers come and go."""
        self.backoff_until_ms = {one: until for one, until in self.backoff_until_ms.items() if until > self.now_ms}
        self.backoff_until_ms[peer] = self.now_ms + self.timeouts.retry_backoff_ms

    def reply(
        self, token: Any, answer: VoteAnswer | EpochAnswer | FetchAnswer | FetchSnapshotAnswer | VoterChangeAnswer
    ) -> None:
        """Answer a request."""
        self.emit(Reply(token, answer))

    def epoch_answer(self, error: ErrorCode) -> EpochAnswer:
        """The answer to a leader that begins or ends its epoch."""
        return EpochAnswer(error, self.epoch, self.role.leader_id, self.leader_endpoints)

    def fetch_error(self, error: ErrorCode) -> FetchAnswer:
        """A refused Fetch, with the leader to ask instead."""
        return FetchAnswer(error, self.epoch, self.role.leader_id, self.leader_endpoints)

    def change_answer(self, error: ErrorCode, message: str = "") -> VoterChangeAnswer:
        """The answer to a change of voters."""
        return VoterChangeAnswer(error, message, self.epoch, self.role.leader_id, self.leader_endpoints)

    def stop(self, reason: str) -> None:
        """End the process: there is no safe way on."""
        self.stopped = True
        self.emit(Stop(reason))
