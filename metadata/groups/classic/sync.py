"""SyncGroup: the leader hands in the assignments, every member fetches its own."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.coordination import Action, Now, Reply, Write
from stratalog.metadata.groups.classic.core import ClassicCore
from stratalog.metadata.groups.classic.members import ClassicMember
from stratalog.metadata.groups.classic.state import ClassicState
from stratalog.metadata.groups.group import GroupRequest
from stratalog.metadata.record_texts import WRITE_BYTES_MAX
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["sync"]

_PROTOCOL_NAMED_SINCE: Final = 5


def sync(core: ClassicCore, event: GroupRequest, now: Now) -> list[Action]:
    """A member asks for its assignment. No member is answered before the assignments of all are in the log."""
    request: SyncGroupRequest = event.request
    try:
        member = _check(core, request, event.api_version)
        _check_size(core, request)
    except KafkaError as error:
        return [Reply(event.token, SyncGroupResponse(error_code=error.code))]
    core.heard_sync(member.member_id)
    if core.phase is ClassicState.STABLE:
        return [Reply(event.token, core.assigned(member), durable=True)]
    actions: list[Action] = []
    core.refuse_sync(member, actions, ErrorCode.REBALANCE_IN_PROGRESS)  # an older one of the same member
    member.sync_token = event.token
    if core.members.leader_id == member.member_id:
        actions.append(_assign(core, request, now))
    return actions


def _check(core: ClassicCore, request: SyncGroupRequest, api_version: int) -> ClassicMember:
    """The member, if it may have an assignment now."""
    named = (request.protocol_type, request.protocol_name)
    if api_version >= _PROTOCOL_NAMED_SINCE and None in named:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    member = core.members.check(request.member_id, request.group_instance_id)
    if request.generation_id != core.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    for theirs, ours in zip(named, (core.protocol_type, core.protocol_name), strict=True):
        if theirs is not None and ours and theirs != ours:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if core.phase is ClassicState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member


def _check_size(core: ClassicCore, request: SyncGroupRequest) -> None:
    """Raises UNKNOWN_SERVER_ERROR, as Kafka answers, if the record of the group would be too large."""
    if not request.assignments or core.phase is not ClassicState.COMPLETING_REBALANCE:
        return
    name = core.protocol_name or ""
    size_bytes = sum(len(one.assignment) for one in request.assignments)
    size_bytes += sum(member.record_bytes(member.protocols, name) for member in core.members.by_id.values())
    if size_bytes > WRITE_BYTES_MAX:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{size_bytes} bytes of assignments and subscriptions")


def _assign(core: ClassicCore, request: SyncGroupRequest, now: Now) -> Write:
    """The leader's assignments make the generation stable; a member that it has left out has nothing to do."""
    assignments = {one.member_id: one.assignment for one in request.assignments}
    replies = []
    for member in core.members.by_id.values():
        core.members.assign(member, assignments.get(member.member_id, b""))
        token, member.sync_token = member.sync_token, None
        if token is not None:
            replies.append(Reply(token, core.assigned(member)))
            core.begin_session(member, now)
    core.transition(ClassicState.STABLE, now)
    core.rebalances_completed += 1
    return Write([core.record()], replies)
