"""Votes: who gets one, and the way from Unattached over Prospective and Candidate to Leader (Raft 5.2, 5.4.1; KIP-996)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stratalog.metadata.raft import following, leadership
from stratalog.metadata.raft.core import RaftCore
from stratalog.metadata.raft.messages import NO_LEADER, VoteAnswer, VoteRequest
from stratalog.metadata.raft.states import Candidate, Follower, Leader, Prospective, Unattached, Votes
from stratalog.wire.errors import ErrorCode

__all__ = [
    "on_vote",
    "on_vote_answer",
    "poll_candidate",
    "poll_prospective",
    "poll_unattached",
    "would_grant",
]


def on_vote(core: RaftCore, token: Any, request: VoteRequest) -> None:
    """Answer a candidate. The checks stand in Kafka's order, so that errors are the same."""
    error, granted = _problem(core, request), False
    if error is ErrorCode.NONE and request.epoch > core.epoch:
        core.detach(request.epoch)
    if error is ErrorCode.NONE and not request.voter.matches(core.me):
        error = ErrorCode.INVALID_VOTER_KEY
    if error is ErrorCode.NONE:
        granted = would_grant(core, request)
        if granted and not request.pre_vote:
            _cast(core, request)
    core.reply(token, VoteAnswer(error, core.epoch, core.role.leader_id, core.leader_endpoints, granted))


def _problem(core: RaftCore, request: VoteRequest) -> ErrorCode:
    """Why a request is not even considered."""
    newest = request.epoch if request.pre_vote else request.epoch - 1
    if core.is_foreign(request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if min(request.last_epoch, request.end_offset) < 0 or request.last_epoch > newest:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.FENCED_LEADER_EPOCH if request.epoch < core.epoch else ErrorCode.NONE


def would_grant(core: RaftCore, request: VoteRequest) -> bool:
    """Whether the candidate gets the vote of this epoch, or would get that of the next.

    The candidate's log must have all that may be committed here. That is asked again of a candidate that has the vote
    already, unlike in Kafka: it may have lost unsynced records, on which the vote had rested, in a power cut.
    """
    if not core.log.is_covered_by(request.last_epoch, request.end_offset):
        return False
    role = core.role
    if request.pre_vote:
        return not isinstance(role, Leader) and not (isinstance(role, Follower) and role.has_fetched)
    if not isinstance(role, Unattached | Prospective):
        return False
    if role.voted is not None:
        return role.voted.matches(request.candidate)
    return role.leader_id == NO_LEADER


def _cast(core: RaftCore, request: VoteRequest) -> None:
    """Vote, and wait anew before standing oneself."""
    if isinstance(core.role, Unattached | Prospective):
        core.become(replace(core.role, voted=request.candidate, deadline_ms=core.election_deadline_ms()))


def on_vote_answer(core: RaftCore, peer: int, request: VoteRequest, answer: VoteAnswer) -> None:
    """Count an answer to this node's own candidacy."""
    role = core.role
    if core.heed(answer.epoch, answer.leader_id, answer.endpoints):
        return
    if not isinstance(role, Prospective if request.pre_vote else Candidate) or request.epoch != role.epoch:
        return
    if answer.error is ErrorCode.NONE:
        core.role = replace(role, votes=role.votes.with_answer(peer, granted=answer.granted))
    elif answer.error is ErrorCode.UNSUPPORTED_VERSION and request.pre_vote:
        _become_candidate(core)  # the voter is older than pre-votes: without its answer there might be no majority
    else:
        core.back_off(peer)


# -- timers and what is sent -------------------------------------------------------------------------------------------


def poll_unattached(core: RaftCore) -> None:
    """Stand when the time is over; until then look for the leader."""
    assert isinstance(core.role, Unattached)
    if core.is_loading:
        return
    if core.may_stand and core.now_ms >= core.role.deadline_ms:
        core.stand()
    else:
        following.ask_any(core)


def poll_prospective(core: RaftCore) -> None:
    """Become a candidate with a majority; otherwise go back to the old leader, or wait for a new one."""
    role = core.role
    assert isinstance(role, Prospective)
    if not core.may_stand:
        core.detach(role.epoch, voted=role.voted, leader_id=role.leader_id)
    elif role.votes.are_won(core.voters):
        _become_candidate(core)
    elif role.votes.are_lost(core.voters) or core.now_ms >= role.deadline_ms:
        if role.leader_id != NO_LEADER:
            core.follow(role.epoch, role.leader_id, role.leader_endpoints)
        else:
            core.detach(role.epoch, voted=role.voted)
    else:
        _ask_for_votes(core, role, pre_vote=True)


def _become_candidate(core: RaftCore) -> None:
    """Begin an epoch and vote for oneself in it, durably, before any other is asked."""
    votes = Votes(granted=frozenset({core.me.id}))
    core.become(Candidate(core.epoch + 1, core.election_deadline_ms(), votes, core.me))


def poll_candidate(core: RaftCore) -> None:
    """Lead with a majority. A lost election is waited out: a rival of the same epoch may yet win."""
    role = core.role
    assert isinstance(role, Candidate)
    if not core.may_stand:
        core.detach(role.epoch, voted=role.voted)
    elif role.votes.are_won(core.voters):
        leadership.become_leader(core)
    elif core.now_ms >= role.deadline_ms:
        core.stand()
    elif not role.votes.are_lost(core.voters):
        _ask_for_votes(core, role, pre_vote=False)


def _ask_for_votes(core: RaftCore, role: Prospective | Candidate, *, pre_vote: bool) -> None:
    """Ask each voter that has not answered."""
    missing = role.votes.missing(core.voters)
    for voter in core.voters:
        if voter.key.id in missing and core.may_send(voter.key.id):
            request = VoteRequest(
                role.epoch,
                core.me,
                voter.key,
                core.log.last_epoch,
                core.log.end_offset,
                pre_vote=pre_vote,
                cluster_id=core.identity.cluster_id,
            )
            core.send(voter.key.id, request)
