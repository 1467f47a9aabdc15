"""LeaveGroup: members go, by themselves or removed by an administrator."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.coordination import Action, Now, Reply, Write
from stratalog.metadata.groups.classic.core import ClassicCore
from stratalog.metadata.groups.classic.rebalance import complete_join_if_all_joined, prepare_rebalance
from stratalog.metadata.groups.classic.state import ClassicState
from stratalog.metadata.groups.group import GroupRequest
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

__all__ = ["leave", "leaving", "left"]

_MANY_SINCE: Final = 3


def leaving(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    """The members that leave: one by its member id in old versions, many in later ones."""
    return [MemberIdentity(member_id=request.member_id)] if api_version < _MANY_SINCE else request.members


def left(members: list[tuple[MemberIdentity, ErrorCode]], api_version: int) -> LeaveGroupResponse:
    """The answer: what became of each, in old versions of the one."""
    if api_version < _MANY_SINCE:
        return LeaveGroupResponse(error_code=members[0][1])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code)
            for one, code in members
        ]
    )


def leave(core: ClassicCore, event: GroupRequest, now: Now) -> list[Action]:
    """Members leave. When the last member has left, the answer waits until that is in the log."""
    request: LeaveGroupRequest = event.request
    actions: list[Action] = []
    outcomes = []
    for one in leaving(request, event.api_version):
        code = ErrorCode.NONE
        try:
            _remove(core, one, actions)
        except KafkaError as error:
            code = error.code
        outcomes.append((one, code))
    if not all(code for _, code in outcomes):
        if core.phase is ClassicState.PREPARING_REBALANCE:
            complete_join_if_all_joined(core, now, actions)
        elif core.phase is not ClassicState.EMPTY:
            prepare_rebalance(core, now, actions)
    written = any(type(action) is Write for action in actions)
    actions.append(Reply(event.token, left(outcomes, event.api_version), durable=written))
    return actions


def _remove(core: ClassicCore, one: MemberIdentity, actions: list[Action]) -> None:
    member_id = one.member_id
    if not member_id:
        # An administrator names a static member by its instance id alone.
        known = None if one.group_instance_id is None else core.members.static_ids.get(one.group_instance_id)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member_id = known
    elif core.pending.pop(member_id, None) is not None:
        return
    member = core.members.check(member_id, one.group_instance_id)
    core.remove(member, actions, ErrorCode.UNKNOWN_MEMBER_ID)
