"""One node of the metadata quorum: Kafka's Raft with pull as a pure machine.

.. code-block:: text

    driver                        Raft
      |  Received, Answered, Failed   |   a message has come, or will not
      |  Flushed, Snapshot...         |   the disk has done something
      |  Proposed                     |   the controller has decided something
      |  Tick, Shutdown               |
      |------------------------------>|   step(event, now_ms, jitter)
      |<------------------------------|   actions, to be carried out in this order

After each event the node's role is polled: it says everything that it wants to say and has not said. So an event needs
no second way for the case that it was lost; a retry is the same poll at a later time.

Sources: KIP-595 (Raft), KIP-630 (snapshots), KIP-853 (voters), KIP-996 (pre-vote), KIP-1166 (high watermark in Fetch),
and the behaviour of Kafka 4.3.1's ``KafkaRaftClient``. Different from Kafka, on purpose: a leader counts its flushed
offset and not its end; a voter that restarts after a vote for itself waits for the next epoch; a repeated vote looks
at the candidate's log again; a node stands also while its own removal may be uncommitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stratalog.metadata.quorum.quorum_state import NO_VOTER, QuorumState
from stratalog.metadata.raft import (
    elections,
    fetch_serving,
    following,
    kraft_version,
    leadership,
    membership,
    reconfiguration,
)
from stratalog.metadata.raft.actions import Action, DeleteLogBefore, ShutDown, WriteSnapshot
from stratalog.metadata.raft.core import Identity, RaftCore
from stratalog.metadata.raft.events import (
    Answered,
    CleanLog,
    Event,
    Failed,
    Flushed,
    HandOver,
    Proposed,
    Received,
    Shutdown,
    SnapshotDue,
    SnapshotLoaded,
    SnapshotWritten,
    Tick,
    UpgradeProposed,
)
from stratalog.metadata.raft.log_view import LogView
from stratalog.metadata.raft.messages import (
    NO_LEADER,
    AddVoterRequest,
    ApiVersionsAnswer,
    ApiVersionsRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochAnswer,
    FetchAnswer,
    FetchRequest,
    FetchSnapshotAnswer,
    FetchSnapshotRequest,
    OffsetAndEpoch,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    VoteAnswer,
    VoterChangeAnswer,
    VoteRequest,
)
from stratalog.metadata.raft.states import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from stratalog.metadata.raft.timeouts import RaftTimeouts
from stratalog.metadata.raft.voter_set import Endpoints, ReplicaKey
from stratalog.wire.errors import Corrupt, ErrorCode, Invalid

__all__ = ["Raft"]


class Raft:
    """The machine. ``log`` is what the disk has; ``stored`` what ``quorum-state`` says, None if there is no such file.

    A file that cannot be read is no None: the node may have voted. It is a wiped node, which begins with an empty log
    under a new directory id and becomes a voter again by being added.
    """

    def __init__(
        self,
        identity: Identity,
        log: LogView,
        stored: QuorumState | None,
        *,
        timeouts: RaftTimeouts | None = None,
    ) -> None:
        """Raises `Corrupt` for a log with records and without a quorum state: the vote is lost."""
        if stored is None and log.last_epoch > 0:
            raise Corrupt(
                f"the metadata log ends at offset {log.end_offset} and there is no quorum-state beside it: the node may "
                "vote twice"
            )
        self._core = RaftCore(identity, timeouts or RaftTimeouts(), log, stored)

    # -- what the driver may look at -----------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """The part this node plays."""
        return self._core.role

    @property
    def log(self) -> LogView:
        """The log as the machine knows it: with all appends and truncations that it has asked for."""
        return self._core.log

    @property
    def high_watermark(self) -> int:
        """Records below it are committed."""
        return self._core.high_watermark

    @property
    def leader(self) -> tuple[int, int, Endpoints]:
        """The id of the leader, -1 if it is not known, its epoch, and where it listens."""
        core = self._core
        return core.role.leader_id, core.epoch, core.leader_endpoints

    @property
    def is_voter(self) -> bool:
        """Whether this node is a voter now."""
        return self._core.is_voter

    @property
    def follows(self) -> bool:
        """Whether another node is known to lead."""
        return self._core.role.leader_id not in (NO_LEADER, self._core.me.id)

    @property
    def can_hand_over(self) -> bool:
        """Whether this node leads, and another voter could."""
        core = self._core
        return isinstance(core.role, Leader) and bool(core.voters.others(core.me.id)) and not self.majority_is_gone

    @property
    def majority_is_gone(self) -> bool:
        """Whether so many voters' processes are gone, by the word of their hosts, that no leader can be elected."""
        return self._core.majority_is_gone

    @property
    def deadline_ms(self) -> int | None:
        """When the next `Tick` is due; None if only an event of another kind can change anything."""
        core = self._core
        if core.stopped:
            return None
        times = [until for until in core.backoff_until_ms.values() if until > core.now_ms]
        if core.shutdown_deadline_ms is not None:
            times.append(core.shutdown_deadline_ms)
        role = core.role
        if isinstance(role, Leader):
            if len(core.voters) > 1 or not core.is_voter:
                times.append(role.check_quorum_deadline_ms)
            times.append(role.begin_due_ms)
            times += [parked.deadline_ms for parked in role.parked]
            if role.change is not None and not role.change.answered:
                times.append(role.change.deadline_ms)
        elif not core.is_loading and (core.may_stand or not isinstance(role, Unattached)):
            times.append(role.deadline_ms)
        return min(times, default=None)

    # -- events --------------------------------------------------------------------------------------------------------

    def start(self, *, now_ms: int, jitter: float) -> list[Action]:
        """Take up the stored role, see `_first_role`. A single voter leads when this returns."""
        core = self._core
        core.now_ms, core.jitter = now_ms, jitter
        stored, epoch = core.stored, core.epoch
        voted = _vote_in(stored, epoch)
        leader_id = stored.leader_id if stored is not None and stored.leader_epoch == epoch else NO_LEADER
        if leader_id == core.me.id:
            core.become(Resigned(epoch, leader_id, core.election_deadline_ms()))
        else:
            core.detach(epoch, voted=voted)
            if leader_id != NO_LEADER:
                core.follow(epoch, leader_id)
        if core.is_voter and len(core.voters) == 1:
            core.stand()
        return self._settle()

    def step(self, event: Event, *, now_ms: int, jitter: float) -> list[Action]:
        """The actions that follow from one event.

        ``now_ms`` is a time that never goes back, ``jitter`` a fresh number in [0, 1) for the time-out that the step
        may begin. After `Stop` or `ShutDown` there are none.
        """
        core = self._core
        if core.stopped:
            return []
        core.now_ms, core.jitter = max(now_ms, core.now_ms), jitter
        _HANDLERS[type(event)](core, event)
        return self._settle()

    def _settle(self) -> list[Action]:
        """Poll the role until it stays the same, and hand out the actions."""
        core, before = self._core, None
        while not core.stopped and before != (type(core.role), core.epoch):
            before = type(core.role), core.epoch
            _shut_down_if_due(core)
            if not core.stopped:
                _POLLS[type(core.role)](core)
        actions, core.actions = core.actions, []
        return actions


def _vote_in(stored: QuorumState | None, epoch: int) -> ReplicaKey | None:
    """The vote that was cast in this epoch."""
    if stored is None or stored.leader_epoch != epoch or stored.voted_id == NO_VOTER:
        return None
    return ReplicaKey(stored.voted_id, stored.voted_directory_id)


def _shut_down_if_due(core: RaftCore) -> None:
    """Let the process end once there is no epoch to hand over, no voter that could take it, or its time is over."""
    if core.shutdown_deadline_ms is None:
        return
    is_vain = not isinstance(core.role, Leader | Resigned) or core.majority_is_gone
    if is_vain or core.now_ms >= core.shutdown_deadline_ms:
        core.emit(ShutDown())
        core.stopped = True


# -- which event goes where --------------------------------------------------------------------------------------------


def _sender(request: Request) -> int:
    """The id of the replica that has sent a request; `NO_LEADER` for an administrator."""
    match request:
        case VoteRequest():
            return request.candidate.id
        case FetchRequest() | FetchSnapshotRequest():
            return request.replica.id
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return request.leader_id
        case _:
            return NO_LEADER


def _received(core: RaftCore, event: Received) -> None:
    request, token = event.request, event.token
    core.refused_ms.pop(_sender(request), None)
    match request:
        case VoteRequest():
            elections.on_vote(core, token, request)
        case FetchRequest():
            fetch_serving.on_fetch(core, token, request)
        case FetchSnapshotRequest():
            fetch_serving.on_fetch_snapshot(core, token, request)
        case BeginQuorumEpochRequest():
            leadership.on_begin_epoch(core, token, request)
        case EndQuorumEpochRequest():
            leadership.on_end_epoch(core, token, request)
        case UpdateVoterRequest() if core.log.kraft_version == 0:
            kraft_version.on_static_update(core, token, request)
        case AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest():
            reconfiguration.on_change(core, token, request)
        case ApiVersionsRequest():
            raise Invalid("ApiVersions is answered by the server, not by the quorum")


def _answered(core: RaftCore, event: Answered) -> None:
    core.refused_ms.pop(event.peer, None)
    if not core.is_expected(event.peer, event.request):
        return
    _back_off_if_void(core, event)
    match event.request, event.answer:
        case VoteRequest() as request, VoteAnswer() as answer:
            elections.on_vote_answer(core, event.peer, request, answer)
        case FetchRequest() as request, FetchAnswer() as answer:
            following.on_fetch_answer(core, event.peer, request, answer)
        case FetchSnapshotRequest() as request, FetchSnapshotAnswer() as answer:
            following.on_fetch_snapshot_answer(core, event.peer, request, answer)
        case BeginQuorumEpochRequest(), EpochAnswer() as answer:
            core.heed(answer.epoch, answer.leader_id, answer.endpoints)
        case EndQuorumEpochRequest(), EpochAnswer() as answer:
            leadership.on_end_epoch_answer(core, event.peer, answer)
        case (
            AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest()
        ) as request, VoterChangeAnswer() as answer:
            membership.on_change_answer(core, request, answer)
        case ApiVersionsRequest(), ApiVersionsAnswer() as answer:
            reconfiguration.on_versions(core, event.peer, answer)
        case _:
            raise Invalid(f"{type(event.answer).__name__} is no answer to {type(event.request).__name__}")


def _back_off_if_void(core: RaftCore, event: Answered) -> None:
    """An answer of an older epoch is void, and the next one would be, too, if it were asked for at once."""
    answer = event.answer
    if isinstance(answer, VoteAnswer | EpochAnswer | FetchAnswer | FetchSnapshotAnswer) and answer.epoch < core.epoch:
        core.back_off(event.peer)


def _failed(core: RaftCore, event: Failed) -> None:
    request = event.request
    if event.refused:
        core.refused_ms[event.peer] = core.now_ms
    if not core.is_expected(event.peer, request):
        return
    if isinstance(request, VoteRequest) and event.error is ErrorCode.UNSUPPORTED_VERSION:
        elections.on_vote_answer(core, event.peer, request, VoteAnswer(event.error, core.epoch))
    elif isinstance(request, FetchRequest | FetchSnapshotRequest):
        following.on_fetch_failed(core, event.peer, refused=event.refused)
    elif isinstance(request, UpdateVoterRequest) and event.error is ErrorCode.UNSUPPORTED_VERSION:
        membership.on_change_answer(core, request, VoterChangeAnswer(event.error))
    elif isinstance(request, ApiVersionsRequest):
        reconfiguration.on_versions(core, event.peer, None)
    else:
        core.back_off(event.peer)


def _flushed(core: RaftCore, event: Flushed) -> None:
    if event.truncations == core.truncations:
        core.log = core.log.flushed(event.end_offset)
        leadership.advance(core)


def _snapshot_due(core: RaftCore, event: SnapshotDue) -> None:
    end = min(event.end_offset, core.high_watermark)
    newest = core.log.snapshots[-1].offset if core.log.snapshots else 0
    if end > newest:
        core.emit(WriteSnapshot(OffsetAndEpoch(end, core.log.epoch_at(end))))


def _snapshot_written(core: RaftCore, event: SnapshotWritten) -> None:
    if event.snapshot.offset > core.log.start_offset:  # else a newer one of the leader's is in place of the log
        core.log = core.log.with_snapshot(event.snapshot)


def _clean_log(core: RaftCore, event: CleanLog) -> None:
    if event.snapshot.offset <= core.log.start_offset:  # a newer one is in place of the log already
        return
    if event.snapshot not in core.log.snapshots:  # its file has its name, and the word that it is whole is on its way
        return
    core.log = core.log.cleaned(event.snapshot)
    core.emit(DeleteLogBefore(event.snapshot))


def _hand_over(core: RaftCore, _event: HandOver) -> None:
    leadership.hand_over(core)


def _shutdown(core: RaftCore, event: Shutdown) -> None:
    core.shutdown_deadline_ms = core.now_ms + event.timeout_ms


def _tick(_core: RaftCore, _event: Tick) -> None:
    """Deadlines are looked at after every event."""


_HANDLERS: Final[dict[type, Callable[[RaftCore, Any], None]]] = {
    Received: _received,
    Answered: _answered,
    Failed: _failed,
    Proposed: leadership.on_proposed,
    UpgradeProposed: kraft_version.on_upgrade,
    Flushed: _flushed,
    SnapshotDue: _snapshot_due,
    SnapshotWritten: _snapshot_written,
    CleanLog: _clean_log,
    SnapshotLoaded: following.on_snapshot_loaded,
    Tick: _tick,
    HandOver: _hand_over,
    Shutdown: _shutdown,
}

_POLLS: Final[dict[type, Callable[[RaftCore], None]]] = {
    Unattached: elections.poll_unattached,
    Prospective: elections.poll_prospective,
    Candidate: elections.poll_candidate,
    Leader: leadership.poll_leader,
    Follower: following.poll_follower,
    Resigned: leadership.poll_resigned,
}
