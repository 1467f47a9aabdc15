"""Changes of the voters: one at a time, each a record that counts from its append on (KIP-853).

Two sets that differ by one voter share a voter in all their majorities. That is all the safety there is, so a second
change waits until the first is committed, and the first of an epoch until the epoch itself has committed a record.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stratalog.metadata.raft import leadership
from stratalog.metadata.raft.core import RaftCore
from stratalog.metadata.raft.fetch_serving import leader_problem
from stratalog.metadata.raft.messages import (
    AddVoterRequest,
    ApiVersionsAnswer,
    ApiVersionsRequest,
    Batch,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChange,
    Voters,
)
from stratalog.metadata.raft.replica_progress import NEVER_MS
from stratalog.metadata.raft.states import Leader, PendingChange
from stratalog.metadata.raft.voter_set import ReplicaKey, Voter, VoterSet
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import ZERO_UUID, uuid_text

__all__ = ["changed_voters", "check_change", "check_leads", "check_voter", "is_caught_up", "on_change", "on_versions"]


def on_change(core: RaftCore, token: Any, request: VoterChange) -> None:
    """Begin a change, or refuse it with Kafka's error."""
    try:
        check_change(core, request)
        if isinstance(request, UpdateVoterRequest):
            _check_level(core, request.voter)
        voters = changed_voters(core.voters, request)
        if isinstance(request, RemoveVoterRequest):
            _check_can_commit(core, voters)
    except KafkaError as refusal:
        core.reply(token, core.change_answer(refusal.code, refusal.message or ""))
        return
    if isinstance(request, UpdateVoterRequest):
        leadership.heard_from(core, request.voter.key)
        if voters == core.voters:  # the answer to the same request was lost
            core.reply(token, core.change_answer(ErrorCode.NONE))
            return
    role = core.role
    assert isinstance(role, Leader)
    change = PendingChange(token, request, core.now_ms + core.timeouts.fetch_ms)
    if isinstance(request, AddVoterRequest):
        newcomer = request.voter
        core.role = replace(role, change=change)
        core.send(newcomer.key.id, ApiVersionsRequest(), newcomer.endpoints)
    else:
        _append(core, change, voters)


def check_change(core: RaftCore, request: VoterChange) -> None:
    """Raise `KafkaError` unless the voters may be changed at all now."""
    check_leads(core, request)
    role = core.role
    assert isinstance(role, Leader)
    if core.log.kraft_version == 0:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the voters are static: kraft.version is 0")
    if role.change is not None or core.log.voters_offset >= role.high_watermark:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way")


def check_leads(core: RaftCore, request: VoterChange) -> None:
    """Raise `KafkaError` unless this node leads and has committed a record of its epoch."""
    epoch = request.epoch if isinstance(request, UpdateVoterRequest) else core.epoch
    error = leader_problem(core, request.cluster_id, epoch)
    if error is not ErrorCode.NONE:
        raise KafkaError(error, "only the leader of the metadata quorum changes its voters")
    role = core.role
    assert isinstance(role, Leader)
    if not role.is_active:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the leader has not yet committed a record of its own epoch")


def check_voter(voter: Voter) -> None:
    """Raise `KafkaError` for a voter that could not be asked for its vote."""
    if voter.key.directory_id == ZERO_UUID or not voter.endpoints:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a voter has a directory id and a listener of the controllers")


def _check_level(core: RaftCore, voter: Voter) -> None:
    """Raise `KafkaError` for a voter that could not read the log."""
    level = core.log.kraft_version
    if not voter.can_run(level):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"node {voter.key.id} cannot run kraft.version {level}")


def _check_directory(core: RaftCore, newcomer: ReplicaKey) -> None:
    """Raise `KafkaError` if the node fetches with another directory by now: the one that is asked for is gone, and nothing
    could be committed with it. The request may be old, or the leader has stood still.
    """
    role = core.role
    assert isinstance(role, Leader)
    latest = role.progress.latest(newcomer.id)
    if latest is not None and not newcomer.matches(latest):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{_text(newcomer)} is no more: it is {_text(latest)} that fetches now"
        )


def _check_can_commit(core: RaftCore, changed: VoterSet) -> None:
    """Raise `KafkaError` for a change that the new voters could not commit; Kafka appends it.

    The new set counts from the append on. Without a majority the change is neither committed nor taken back, and the
    quorum stands still for good if the disk of a silent voter is lost.
    """
    role = core.role
    assert isinstance(role, Leader)
    since_ms = core.now_ms - core.timeouts.check_quorum_ms
    fetched_ms = {voter.key.id: role.progress.of(voter.key).fetched_ms for voter in changed.others(core.me.id)}
    silent = [node_id for node_id, last_ms in fetched_ms.items() if last_ms == NEVER_MS or last_ms <= since_ms]
    if len(changed) - len(silent) < changed.majority:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"of the voters {sorted(changed.ids)} after this change, {silent} have not fetched for "
            f"{core.timeouts.check_quorum_ms} ms: it could not be committed without them. "
            "Remove those that are gone first, or wait for them",
        )


def changed_voters(voters: VoterSet, request: VoterChange) -> VoterSet:
    """The voters after one change. Raises `KafkaError` for one that makes no sense."""
    if isinstance(request, RemoveVoterRequest):
        left = voters.removed(request.voter)
        if left == voters:
            raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{_text(request.voter)} is no voter")
        if not left.voters:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the last voter cannot be removed")
        return left
    voter = request.voter
    check_voter(voter)
    if isinstance(request, UpdateVoterRequest):
        if not any(each.key == voter.key for each in voters):
            raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{_text(voter.key)} is no voter")
        return voters.updated(voter)
    if voters.voter(voter.key.id) is not None:
        raise KafkaError(ErrorCode.DUPLICATE_VOTER, f"node {voter.key.id} is a voter; remove its old directory first")
    return voters.added(voter)


def _text(key: ReplicaKey) -> str:
    return f"node {key.id} with the directory {uuid_text(key.directory_id)}"


def _append(core: RaftCore, change: PendingChange, voters: VoterSet) -> None:
    """Append the new set, which counts at once.

    A voter that asks for itself is answered now: it fetches nothing while it waits, and the commit may need its fetch.
    """
    role, end = core.role, core.log.end_offset
    assert isinstance(role, Leader)
    request = change.request
    answered = isinstance(request, UpdateVoterRequest) or (
        isinstance(request, AddVoterRequest) and not request.ack_when_committed
    )
    due_ms = role.check_quorum_deadline_ms
    if len(core.voters) == 1:  # an only voter waits for no other, and its deadline is that of its first moment
        due_ms = core.now_ms + core.timeouts.check_quorum_ms
    change = replace(change, offset=end, answered=answered)
    core.role = replace(role, change=change, check_quorum_deadline_ms=due_ms)
    core.append((Batch(end, end + 1, role.epoch, (Voters(voters),)),))
    if answered:
        core.reply(change.token, core.change_answer(ErrorCode.NONE))
    leadership.answer_parked(core, role.parked)
    leadership.advance(core)


def on_versions(core: RaftCore, peer: int, answer: ApiVersionsAnswer | None) -> None:
    """Add the newcomer that has said what it can run; None: it has not answered."""
    role = core.role
    if not isinstance(role, Leader) or role.change is None:
        return
    change, request = role.change, role.change.newcomer
    if request is None or request.voter.key.id != peer:
        return
    core.role = replace(role, change=None)
    try:
        if answer is None or answer.error is not ErrorCode.NONE:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"node {peer} does not answer")
        voter = replace(request.voter, kraft_versions=answer.kraft_versions or (0, 0))
        _check_level(core, voter)
        _check_directory(core, request.voter.key)
        if not is_caught_up(core, request.voter):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"node {peer} has not fetched all of the metadata log yet")
        check_change(core, request)
        voters = changed_voters(core.voters, replace(request, voter=voter))
        _check_can_commit(core, voters)
    except KafkaError as refusal:
        core.reply(change.token, core.change_answer(refusal.code, refusal.message or ""))
    else:
        _append(core, change, voters)


def is_caught_up(core: RaftCore, voter: Voter) -> bool:
    """Whether a replica has had all of the log once, and fetches still: it adds a majority that can commit."""
    if not isinstance(core.role, Leader):
        return False
    replica = core.role.progress.of(voter.key)
    recently_ms = core.now_ms - core.timeouts.caught_up_ms
    return replica.caught_up_ms != NEVER_MS and replica.fetched_ms > recently_ms
