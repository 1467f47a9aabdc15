"""JoinGroup: how members enter a classic group and its next generation.

Sources: Kafka's ``GroupMetadataManager``; KIP-345 (static members), KIP-389 (size limit), KIP-394 (member ids required),
KIP-814 (a leader that skips the assignment).
"""

from __future__ import annotations

from typing import Final

from stratalog.metadata.coordination import Action, Now, Reply, Write
from stratalog.metadata.groups.classic.core import ClassicCore
from stratalog.metadata.groups.classic.members import ClassicMember
from stratalog.metadata.groups.classic.rebalance import (
    complete_join_if_all_joined,
    prepare_rebalance,
    rebalance_or_complete,
)
from stratalog.metadata.groups.classic.state import ClassicState
from stratalog.metadata.groups.classic.subscription import CONSUMER, same_topics
from stratalog.metadata.groups.group import GroupRequest
from stratalog.metadata.record_texts import WRITE_BYTES_MAX, check_text
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.join_group import JoinGroupRequest

__all__ = ["join"]

_MEMBER_ID_REQUIRED_SINCE: Final = 4
_SKIP_ASSIGNMENT_SINCE: Final = 9
_NEW_MEMBER_MS: Final = 300_000
"""How long a new member may wait for its first generation: its client cannot send heartbeats yet, and may be gone."""


def join(core: ClassicCore, event: GroupRequest, now: Now) -> list[Action]:
    """A member joins. The answer leaves when the next generation begins."""
    request: JoinGroupRequest = event.request
    protocols = {protocol.name: protocol.metadata for protocol in request.protocols}
    try:
        _check_texts(event)
        _check(core, request, protocols)
    except KafkaError as error:
        return [core.join_refused(event.token, request.member_id, error.code)]
    actions: list[Action] = []
    if not _has_room(core, request.member_id):
        core.pending.pop(request.member_id, None)
        member = core.members.by_id.get(request.member_id)
        if member is not None:
            core.remove(member, actions, ErrorCode.GROUP_MAX_SIZE_REACHED)
            complete_join_if_all_joined(core, now, actions)
        actions.append(core.join_refused(event.token, "", ErrorCode.GROUP_MAX_SIZE_REACHED))
    elif request.member_id:
        _join_known(core, event, protocols, now, actions)
    elif request.group_instance_id is not None:
        _join_static(core, event, protocols, now, actions)
    elif event.api_version >= _MEMBER_ID_REQUIRED_SINCE:
        _give_member_id(core, event, now, actions)
    else:
        _add(core, event, _fresh_member_id(event), protocols, now, actions)
    return actions


def _check_texts(event: GroupRequest) -> None:
    """Raises INVALID_REQUEST for what the group's record could not hold."""
    request: JoinGroupRequest = event.request
    spare_bytes = len(event.fresh_id) + 1
    check_text("ClientId", event.client_id, spare_bytes)
    check_text("GroupInstanceId", request.group_instance_id, spare_bytes)
    check_text("ProtocolType", request.protocol_type)
    for protocol in request.protocols:
        check_text("A protocol", protocol.name)


def _check(core: ClassicCore, request: JoinGroupRequest, protocols: dict[str, bytes]) -> None:
    settings = core.settings
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
    if core.phase is ClassicState.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if core.phase is ClassicState.EMPTY:
        fits = bool(request.protocol_type and protocols)
    else:
        fits = core.protocol_type == request.protocol_type and core.members.supports_any(protocols)
    if not fits:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _has_room(core: ClassicCore, member_id: str) -> bool:
    """Whether one more fits in. During a rebalance those that have joined count: the last ones to come stay out."""
    limit = core.settings.max_size
    member = core.members.by_id.get(member_id)
    if core.phase is ClassicState.EMPTY:
        return True
    if core.phase is ClassicState.PREPARING_REBALANCE:
        return (member is not None and member.join_token is not None) or core.members.joined < limit
    return member is not None or len(core.members.by_id) < limit


def _fresh_member_id(event: GroupRequest) -> str:
    request: JoinGroupRequest = event.request
    prefix = event.client_id if request.group_instance_id is None else request.group_instance_id
    return f"{prefix}-{event.fresh_id}"


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Version 0 has none: then it is the session's."""
    return request.session_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms


def _give_member_id(core: ClassicCore, event: GroupRequest, now: Now, actions: list[Action]) -> None:
    """Give a newcomer an id to join again with: a half-open connection then leaves no ghost behind."""
    member_id = _fresh_member_id(event)
    ends_ms = core.pending[member_id] = now.monotonic_ms + event.request.session_timeout_ms
    core.wake_at(ends_ms)
    actions.append(core.join_refused(event.token, member_id, ErrorCode.MEMBER_ID_REQUIRED))


def _add(
    core: ClassicCore, event: GroupRequest, member_id: str, protocols: dict[str, bytes], now: Now, actions: list[Action]
) -> None:
    """A new member, for which the group rebalances."""
    request: JoinGroupRequest = event.request
    core.pending.pop(member_id, None)
    member = ClassicMember(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
        session_timeout_ms=request.session_timeout_ms,
        protocols=protocols,
        is_new=True,
    )
    if not core.members.by_id:
        core.protocol_type = request.protocol_type
    if core.is_initial:
        core.newcomer = True
    core.members.add(member)
    core.members.await_join(member, event.token, event.api_version)
    core.begin_session(member, now, _NEW_MEMBER_MS)
    rebalance_or_complete(core, now, actions)


def _join_known(
    core: ClassicCore, event: GroupRequest, protocols: dict[str, bytes], now: Now, actions: list[Action]
) -> None:
    """Handle a join with a member id: from a newcomer that was given it, or from a member."""
    request: JoinGroupRequest = event.request
    member_id = request.member_id
    if member_id in core.pending and request.group_instance_id is None:
        _add(core, event, member_id, protocols, now, actions)
        return
    try:
        member = core.members.check(member_id, request.group_instance_id)
    except KafkaError as error:
        actions.append(core.join_refused(event.token, member_id, error.code))
        return
    unchanged = member.matches(protocols)
    leads = core.members.leader_id == member_id
    if core.phase is ClassicState.COMPLETING_REBALANCE and unchanged:
        # It may have missed the answer: the generation is still the same.
        actions.append(Reply(event.token, core.joined(member_id)))
    elif core.phase is ClassicState.STABLE and unchanged and not leads:
        actions.append(Reply(event.token, core.joined(member_id)))
    else:
        # A leader that joins a stable group has seen something that members' metadata do not tell, say new partitions.
        _rejoin(core, event, member, protocols, actions)
        rebalance_or_complete(core, now, actions)


def _rejoin(
    core: ClassicCore, event: GroupRequest, member: ClassicMember, protocols: dict[str, bytes], actions: list[Action]
) -> None:
    """A member waits for the next generation, with what it supports now."""
    _update(core, event, member, protocols)
    replaced = core.members.await_join(member, event.token, event.api_version)
    if replaced is not None:
        actions.append(core.join_refused(replaced, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))


def _update(core: ClassicCore, event: GroupRequest, member: ClassicMember, protocols: dict[str, bytes]) -> None:
    """Take over the member's present description of itself."""
    request: JoinGroupRequest = event.request
    core.members.support(member, protocols)
    member.rebalance_timeout_ms = _rebalance_timeout_ms(request)
    member.session_timeout_ms = request.session_timeout_ms


def _join_static(
    core: ClassicCore, event: GroupRequest, protocols: dict[str, bytes], now: Now, actions: list[Action]
) -> None:
    """An instance without a member id: it is new, or has been restarted and takes its old place."""
    request: JoinGroupRequest = event.request
    assert request.group_instance_id is not None
    old_id = core.members.static_ids.get(request.group_instance_id)
    member_id = _fresh_member_id(event)
    if old_id is None:
        _add(core, event, member_id, protocols, now, actions)
        return
    leader_before = core.members.leader_id
    member = core.members.by_id[old_id]
    if core.phase is ClassicState.STABLE and not _fits(core, member, protocols):
        # Kafka's answer to a record that is too large; the old process stays a member.
        actions.append(core.join_refused(event.token, "", ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    _fence(core, member, actions)
    core.members.rename(member, member_id)
    core.pending_sync.discard(old_id)
    member.is_new = False
    core.begin_session(member, now)
    if core.phase is ClassicState.STABLE and _same_choice(core, member, protocols):
        _take_place(core, event, member, protocols, leader_before, actions)
        return
    _rejoin(core, event, member, protocols, actions)
    if core.phase is ClassicState.PREPARING_REBALANCE:
        complete_join_if_all_joined(core, now, actions)
    else:
        # During the sync phase the leader may already assign to the old id: begin again.
        prepare_rebalance(core, now, actions)


def _fits(core: ClassicCore, restarted: ClassicMember, protocols: dict[str, bytes]) -> bool:
    """Whether one append can hold the record of the group with what a restarted member supports now."""
    name = core.protocol_name
    if name is None or name not in protocols:
        return True  # it goes on in no generation that is written
    members = core.members.by_id.values()
    supported = [(one, protocols if one is restarted else one.protocols) for one in members]
    size_bytes = sum([one.record_bytes(said, name) + len(one.assignment) for one, said in supported])
    return size_bytes <= WRITE_BYTES_MAX


def _fence(core: ClassicCore, member: ClassicMember, actions: list[Action]) -> None:
    """Refuse all that the old process of a static member waits for."""
    token = core.members.take_join(member)
    if token is not None:
        actions.append(core.join_refused(token, member.member_id, ErrorCode.FENCED_INSTANCE_ID))
    core.refuse_sync(member, actions, ErrorCode.FENCED_INSTANCE_ID)


def _same_choice(core: ClassicCore, member: ClassicMember, protocols: dict[str, bytes]) -> bool:
    """Whether a restarted static member changes nothing: the group's protocol stays, and the topics that it wants.

    Its subscription as a whole may differ: the sticky strategies put into it what the member owned.
    """
    name = core.protocol_name
    if name is None or name not in protocols:
        return False
    before = member.protocols
    if core.protocol_type == CONSUMER and not same_topics(before[name], protocols[name]):
        return False
    core.members.support(member, protocols)
    if core.members.chosen_protocol() == name:
        return True
    core.members.support(member, before)
    return False


def _take_place(
    core: ClassicCore,
    event: GroupRequest,
    member: ClassicMember,
    protocols: dict[str, bytes],
    leader_before: str | None,
    actions: list[Action],
) -> None:
    """A restarted static member goes on in the same generation; its new id is recorded before it hears of it."""
    _update(core, event, member, protocols)
    if event.api_version >= _SKIP_ASSIGNMENT_SINCE:
        leads = core.members.leader_id == member.member_id
        response = core.joined(member.member_id, skip_assignment=leads)
    else:
        # It must not believe that it leads: it would assign anew in a generation that has its assignments.
        response = core.joined(member.member_id, leader=leader_before)
    actions.append(Write([core.record()], [Reply(event.token, response)]))
