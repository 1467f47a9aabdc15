"""A leader's epoch from its first record to its resignation: commits, proposals, reminders, check-quorum."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stratalog.metadata.raft.actions import Accepted, BecameLeader, Refused, ReplyWithRecords, ShutDown
from stratalog.metadata.raft.core import RaftCore
from stratalog.metadata.raft.events import Proposed
from stratalog.metadata.raft.log_view import BEFORE_THE_LOG
from stratalog.metadata.raft.messages import (
    NO_LEADER,
    Batch,
    BeginQuorumEpochRequest,
    ControlRecord,
    EndQuorumEpochRequest,
    EpochAnswer,
    FetchAnswer,
    KRaftVersion,
    LeaderChange,
    Voters,
)
from stratalog.metadata.raft.replica_progress import NEVER_MS
from stratalog.metadata.raft.states import Candidate, Follower, Leader, ParkedFetch, Prospective, Resigned, Unattached
from stratalog.metadata.raft.voter_set import ReplicaKey, Voter
from stratalog.wire.errors import ErrorCode

__all__ = [
    "advance",
    "answer_parked",
    "become_leader",
    "hand_over",
    "heard_from",
    "on_begin_epoch",
    "on_end_epoch",
    "on_end_epoch_answer",
    "on_proposed",
    "poll_leader",
    "poll_resigned",
    "resign",
]


def become_leader(core: RaftCore) -> None:
    """Lead the epoch whose election is won, and begin it with a record of its own (KIP-595)."""
    role = core.role
    assert isinstance(role, Candidate)
    start, granting = core.log.end_offset, role.votes.granted
    keys = tuple(voter.key for voter in core.voters)
    core.become(
        Leader(
            role.epoch,
            core.me.id,
            start,
            check_quorum_deadline_ms=core.now_ms + core.timeouts.check_quorum_ms,
            begin_due_ms=core.now_ms,
            granting=tuple(key for key in keys if key.id in granting),
        )
    )
    control = (LeaderChange(core.me.id, keys, tuple(key for key in keys if key.id in granting)), *_own_facts(core))
    core.append((Batch(start, start + len(control), role.epoch, control),))
    advance(core)


def _own_facts(core: RaftCore) -> tuple[ControlRecord, ...]:
    """Version and voters, if the log does not have them yet, or has other endpoints of this node (KIP-853)."""
    mine = core.voters.voter(core.me.id)
    if core.log.kraft_version == 0 or mine is None:
        return ()
    now = Voter(mine.key, core.identity.endpoints, core.identity.kraft_versions)
    if core.log.voters_offset != BEFORE_THE_LOG and now.is_same(mine):
        return ()
    return KRaftVersion(core.log.kraft_version), Voters(core.voters.updated(now))


# -- records and their commit ------------------------------------------------------------------------------------------


def on_proposed(core: RaftCore, event: Proposed) -> None:
    """Append what the controller has decided, in the epoch in which it has decided it and in no other."""
    role = core.role
    if not isinstance(role, Leader) or not role.is_active or role.epoch != event.epoch:
        core.emit(Refused(event.token, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return
    start = core.log.end_offset
    batch = Batch(start, start + event.count, role.epoch, data=event.data)
    core.append((batch,))
    core.emit(Accepted(event.token, batch.base_offset, batch.end_offset))
    answer_parked(core, role.parked)


def advance(core: RaftCore) -> None:
    """Commit what a majority has on disk, once a record of this epoch is among it (Raft 5.4.2)."""
    role = core.role
    if not isinstance(role, Leader):
        return
    end = role.progress.high_watermark(core.voters, core.me, core.log.flushed_offset)
    if end <= max(role.start_offset, role.high_watermark):
        return
    core.role = replace(role, high_watermark=end)
    core.commit(end)
    if not role.is_active:
        core.emit(BecameLeader(role.epoch))
    change = role.change
    if change is not None and BEFORE_THE_LOG < change.offset < end:
        core.role = replace(core.role, change=None)
        if not change.answered:
            core.reply(change.token, core.change_answer(ErrorCode.NONE))
    answer_parked(core, role.parked)
    if not core.log.voters_at(end).has(core.me):
        resign(core)


def answer_parked(core: RaftCore, fetches: tuple[ParkedFetch, ...]) -> None:
    """Answer parked fetches with what there is now."""
    role = core.role
    if not isinstance(role, Leader) or not fetches:
        return
    answered = {id(each) for each in fetches}
    core.role = replace(role, parked=tuple(each for each in role.parked if id(each) not in answered))
    answer = FetchAnswer(
        ErrorCode.NONE, role.epoch, role.leader_id, core.identity.endpoints, high_watermark=role.high_watermark
    )
    for each in fetches:
        core.emit(ReplyWithRecords(each.token, answer, each.request.offset, core.log.end_offset))


# -- in touch with the voters ------------------------------------------------------------------------------------------


def heard_from(core: RaftCore, replica: ReplicaKey) -> None:
    """Note that a replica has fetched; check-quorum begins anew each time a majority has."""
    role = core.role
    if not isinstance(role, Leader) or not core.voters.has(replica) or replica.id == core.me.id:
        return
    heard = (role.fetched_voters | {replica.id}) & core.voters.ids
    if len(heard) >= _others_needed(core):
        deadline = core.now_ms + core.timeouts.check_quorum_ms
        core.role = replace(role, fetched_voters=frozenset(), check_quorum_deadline_ms=deadline)
    else:
        core.role = replace(role, fetched_voters=heard)


def _others_needed(core: RaftCore) -> int:
    """How many other voters make a majority: one less with the leader's own voice, if it has one."""
    return core.voters.majority - core.is_voter


def poll_leader(core: RaftCore) -> None:
    """Sync, give up without a majority, remind silent voters, and end waits."""
    role = core.role
    assert isinstance(role, Leader)
    core.request_flush()
    if core.shutdown_deadline_ms is not None:
        resign(core)
        return
    if _others_needed(core) and core.now_ms >= role.check_quorum_deadline_ms:
        resign(core)
        return
    answer_parked(core, tuple(each for each in role.parked if core.now_ms >= each.deadline_ms))
    _end_change(core)
    if core.now_ms >= role.begin_due_ms:
        _remind(core)


def _end_change(core: RaftCore) -> None:
    """Answer a change of voters that takes too long. A record that was appended stays; its fate is open."""
    role = core.role
    if not isinstance(role, Leader) or role.change is None:
        return
    change = role.change
    if change.answered or core.now_ms < change.deadline_ms:
        return
    core.reply(change.token, core.change_answer(ErrorCode.REQUEST_TIMED_OUT, "the change takes too long"))
    kept = replace(change, answered=True) if change.newcomer is None else None
    core.role = replace(role, change=kept)


def _remind(core: RaftCore) -> None:
    """Tell voters that have not fetched for a while who leads."""
    role = core.role
    assert isinstance(role, Leader)
    since = core.now_ms - core.timeouts.begin_epoch_ms
    for voter in core.voters.others(core.me.id):
        fetched_ms = role.progress.of(voter.key).fetched_ms
        if (fetched_ms == NEVER_MS or fetched_ms <= since) and core.may_send(voter.key.id):
            core.send(
                voter.key.id,
                BeginQuorumEpochRequest(
                    role.epoch, core.me.id, voter.key, core.identity.endpoints, core.identity.cluster_id
                ),
            )
    progress = role.progress.remembered(core.voters, core.now_ms - core.timeouts.observer_session_ms)
    core.role = replace(role, begin_due_ms=core.now_ms + core.timeouts.begin_epoch_ms, progress=progress)


def on_begin_epoch(core: RaftCore, token: Any, request: BeginQuorumEpochRequest) -> None:
    """Follow the leader that makes itself known."""
    if core.is_foreign(request.cluster_id):
        error = ErrorCode.INCONSISTENT_CLUSTER_ID
    elif request.epoch < 0 or request.leader_id < 0:
        error = ErrorCode.INVALID_REQUEST
    elif request.epoch < core.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    else:
        core.heed(request.epoch, request.leader_id, request.endpoints)
        error = ErrorCode.NONE if request.voter.matches(core.me) else ErrorCode.INVALID_VOTER_KEY
        if error is ErrorCode.NONE and isinstance(core.role, Prospective):
            core.follow(request.epoch, request.leader_id, request.endpoints)
    if not core.stopped:
        core.reply(token, core.epoch_answer(error))


# -- giving up ---------------------------------------------------------------------------------------------------------


def hand_over(core: RaftCore) -> None:
    """Let another voter lead, if there is one; this node votes, and follows it."""
    if isinstance(core.role, Leader) and core.voters.others(core.me.id):
        resign(core)


def resign(core: RaftCore) -> None:
    """Lead no more, and tell the voters who should."""
    role = core.role
    assert isinstance(role, Leader)
    successors = role.progress.successors(core.voters, core.me)
    core.become(Resigned(role.epoch, core.me.id, core.election_deadline_ms(), successors))


def poll_resigned(core: RaftCore) -> None:
    """Tell each voter; leave the epoch when the time is over."""
    role = core.role
    assert isinstance(role, Resigned)
    others = core.voters.others(core.me.id)
    if core.shutdown_deadline_ms is not None and role.acknowledged >= {voter.key.id for voter in others}:
        core.emit(ShutDown())
        core.stopped = True
    elif core.now_ms >= role.deadline_ms:
        core.detach(role.epoch + 1)
    else:
        request = EndQuorumEpochRequest(role.epoch, core.me.id, role.successors, core.identity.cluster_id)
        for voter in others:
            if voter.key.id not in role.acknowledged and core.may_send(voter.key.id):
                core.send(voter.key.id, request)


def on_end_epoch_answer(core: RaftCore, peer: int, answer: EpochAnswer) -> None:
    """Note that a voter knows."""
    if core.heed(answer.epoch, answer.leader_id, answer.endpoints):
        return
    if answer.error is not ErrorCode.NONE:
        core.back_off(peer)
    elif isinstance(core.role, Resigned):
        core.role = replace(core.role, acknowledged=core.role.acknowledged | {peer})


def on_end_epoch(core: RaftCore, token: Any, request: EndQuorumEpochRequest) -> None:
    """Stand soon: the first successor at once, the others later, so that they do not stand against it.

    They grant it pre-votes: in Kafka they would wait for their own time-outs, unless the old leader votes, too.
    """
    if core.is_foreign(request.cluster_id):
        error = ErrorCode.INCONSISTENT_CLUSTER_ID
    elif request.epoch < 0 or request.leader_id < 0:
        error = ErrorCode.INVALID_REQUEST
    elif request.epoch < core.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    else:
        error = ErrorCode.NONE
        core.heed(request.epoch, request.leader_id, ())
        role = core.role
        if isinstance(role, Follower | Unattached) and role.leader_id not in (NO_LEADER, core.me.id):
            rank = next((at for at, key in enumerate(request.successors) if key.matches(core.me)), -1)
            backoff_ms = core.timeouts.successor_backoff_ms(rank, len(request.successors))
            deadline_ms = min(role.deadline_ms, core.now_ms + backoff_ms)
            core.role = (
                replace(role, deadline_ms=deadline_ms, has_fetched=False, has_ended=True)
                if isinstance(role, Follower)
                else replace(role, deadline_ms=deadline_ms)
            )
    if not core.stopped:
        core.reply(token, core.epoch_answer(error))
