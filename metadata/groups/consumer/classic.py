"""Members that speak the classic protocol in a consumer group, while its clients are being upgraded one by one.

To such a member the group looks like a classic one with another member as leader: JoinGroup takes one step towards the
member's target and answers its epoch as the generation, SyncGroup fetches the assignment, Heartbeat makes it join again
when there is a further step to take. Sources: KIP-848 (online migration); Kafka's ``classicGroupJoinToConsumerGroup``
and its neighbours.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stratalog.metadata.coordination import Action, Now, Reply
from stratalog.metadata.groups.classic.leave import leaving, left
from stratalog.metadata.groups.classic.subscription import NAMES_MAX
from stratalog.metadata.groups.consumer.core import ConsumerCore, Timer, outcome
from stratalog.metadata.groups.consumer.downgrade import assignment_bytes, downgrade, may_downgrade_for
from stratalog.metadata.groups.consumer.fence import fence
from stratalog.metadata.groups.consumer.member import ClassicMember, ConsumerMember, MemberState, written_bytes
from stratalog.metadata.groups.consumer.reconcile import Owned
from stratalog.metadata.groups.group import GroupRequest
from stratalog.metadata.image.topics_image import TopicsImage
from stratalog.metadata.record_texts import WRITE_BYTES_MAX, check_text
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from stratalog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from stratalog.wire.records.consumer_protocol import ConsumerProtocolSubscription, decode_subscription
from stratalog.wire.schema import DecodeError

__all__ = ["serve_classic"]

_CONSUMER: Final = "consumer"
_ID_REQUIRED_SINCE: Final = 4


def serve_classic(group: ConsumerCore, event: GroupRequest, now: Now) -> list[Action]:
    """A request of the classic protocol.

    Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS,
    INVALID_SESSION_TIMEOUT, GROUP_MAX_SIZE_REACHED, UNKNOWN_SERVER_ERROR for a member whose record would be too large;
    nothing has changed then.
    """
    request = event.request
    if isinstance(request, JoinGroupRequest):
        return _join(group, request, event, now)
    if isinstance(request, SyncGroupRequest):
        return _sync(group, request, event, now)
    if isinstance(request, HeartbeatRequest):
        return _heartbeat(group, request, event, now)
    if isinstance(request, LeaveGroupRequest):
        return _leave(group, request, event, now)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"a consumer group takes no {type(request).__name__}")


def _join(group: ConsumerCore, request: JoinGroupRequest, event: GroupRequest, now: Now) -> list[Action]:
    is_new = not request.member_id
    member_id = request.member_id or f"{request.group_instance_id or event.client_id}-{event.fresh_id}"
    _check_join(group, request, member_id)
    if is_new and request.group_instance_id is None and event.api_version >= _ID_REQUIRED_SINCE:
        answer = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        return [Reply(event.token, answer)]
    known, before = _joining(group, request, member_id, is_new=is_new)
    subscription = _subscription(request)
    said = _said(before, request, event, subscription)
    owned = _owned(subscription, group.surroundings.image.topics)
    replaced = known if known is not None and known.member_id != member_id else None
    goes_back = replaced is not None and may_downgrade_for(group, replaced, written_bytes(_protocols(request)))
    update = group.update(now)
    if known is not None and (replaced is not None or known.classic is None):
        group.cancel_timers(
            known.member_id
        )  # of the consumer protocol: a classic member gives partitions up by joining
    if replaced is not None:
        update.replace(replaced, before)
    update.say(before, said)
    if goes_back:
        changed = update.bumps_epoch
        after = said if changed else update.reconcile(said, owned)
        reply = Reply(event.token, _joined(after))
        return downgrade(group, (), now, [reply], records=update.records, rebalance=changed)
    after = update.finish(said, owned)
    group.timers.cancel((Timer.JOIN, member_id))
    group.begin_session(after, now)
    group.timers.set((Timer.SYNC, member_id), now.monotonic_ms + after.rebalance_timeout_ms)
    return outcome(event.token, _joined(after), update.records)


def _check_join(group: ConsumerCore, request: JoinGroupRequest, member_id: str) -> None:
    settings, facts = group.surroundings.settings, group.facts
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
    group.check_room(member_id)
    check_text("GroupInstanceId", request.group_instance_id)
    for protocol in request.protocols:
        check_text("A protocol", protocol.name)
    size_bytes = written_bytes(_protocols(request))
    if size_bytes > WRITE_BYTES_MAX:  # UNKNOWN_SERVER_ERROR is Kafka's answer to a record that is too large
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{size_bytes} bytes of protocols, over {WRITE_BYTES_MAX}.")
    common = any(facts.classic_protocols[protocol.name] == facts.classic_count for protocol in request.protocols)
    if request.protocol_type != _CONSUMER or not common:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")


def _protocols(request: JoinGroupRequest) -> list[tuple[str, bytes]]:
    return [(protocol.name, protocol.metadata) for protocol in request.protocols]


def _joining(
    group: ConsumerCore, request: JoinGroupRequest, member_id: str, *, is_new: bool
) -> tuple[ConsumerMember | None, ConsumerMember]:
    """The member known under the id or instance of a request, and that member as the one that joins."""
    if request.group_instance_id is None:
        known = group.facts.members.get(member_id)
    elif is_new:
        known = group.static_member(request.group_instance_id)
        if known is not None:
            return known, known.succeeded_by(member_id)
    else:
        known = group.known_instance(request.group_instance_id, member_id)
    return (None, ConsumerMember(member_id)) if known is None else (known, known)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """The subscription; it is the same for all protocols. Raises INCONSISTENT_GROUP_PROTOCOL if it cannot be read.

    The elements of a request are counted when it is read; the names in a subscription are counted here.
    """
    try:
        return decode_subscription(request.protocols[0].metadata, NAMES_MAX)
    except DecodeError as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Malformed subscription: {error}.") from error


def _said(
    before: ConsumerMember,
    request: JoinGroupRequest,
    event: GroupRequest,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        topic_names=frozenset(subscription.topics),
        topic_pattern="",
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms == -1 else timeout_ms,
        classic=ClassicMember(
            session_timeout_ms=request.session_timeout_ms,
            protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        ),
    )


def _owned(subscription: ConsumerProtocolSubscription, topics: TopicsImage) -> Owned:
    """The partitions that the member has kept. One whose strategy gives
    everything up before it joins has kept nothing.
    """
    return {
        topics.by_name[part.topic].topic_id: set(part.partitions)
        for part in subscription.owned_partitions
        if part.topic in topics.by_name
    }


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=_CONSUMER,
        protocol_name=member.classic.protocols[0][0],
    )


def _sync(group: ConsumerCore, request: SyncGroupRequest, event: GroupRequest, now: Now) -> list[Action]:
    member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    if request.protocol_type not in {None, _CONSUMER} or request.protocol_name not in {None, classic.protocols[0][0]}:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol {request.protocol_type}/{request.protocol_name} of member {member.member_id} is not the one "
            "in the answer to its JoinGroup.",
        )
    if member.state is not MemberState.UNREVOKED_PARTITIONS and group.wants_rejoin(member, now):
        _await_join(group, member, now)
        raise KafkaError(
            ErrorCode.REBALANCE_IN_PROGRESS,
            f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should rejoin "
            "to catch up.",
        )
    group.timers.cancel((Timer.SYNC, member.member_id))
    group.begin_session(member, now)
    answer = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_bytes(member, group.surroundings.image.topics),
    )
    return [Reply(event.token, answer, durable=True)]


def _heartbeat(group: ConsumerCore, request: HeartbeatRequest, event: GroupRequest, now: Now) -> list[Action]:
    member, _ = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    group.begin_session(member, now)
    answer = HeartbeatResponse()
    if (
        group.wants_rejoin(member, now)
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and _all_released(group, member))
    ):
        answer.error_code = ErrorCode.REBALANCE_IN_PROGRESS
        _await_join(group, member, now)
    return [Reply(event.token, answer, durable=True)]


def _all_released(group: ConsumerCore, member: ConsumerMember) -> bool:
    """Whether the member alone holds partitions of its target."""
    owner = group.facts.owner
    return all(
        owner(topic, partition) in {None, member.member_id}
        for topic, partitions in group.facts.target(member.member_id).items()
        for partition in partitions
    )


def _await_join(group: ConsumerCore, member: ConsumerMember, now: Now) -> None:
    """The member has been asked to join again: it has its rebalance time-out for that, counted from the first time."""
    if (Timer.JOIN, member.member_id) not in group.timers:
        group.timers.set((Timer.JOIN, member.member_id), now.monotonic_ms + member.rebalance_timeout_ms)


def _classic_member(
    group: ConsumerCore, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMember]:
    member = group.known_member(member_id) if instance_id is None else group.known_instance(instance_id, member_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.epoch} "
            f"of member {member.member_id}.",
        )
    return member, member.classic


def _leave(group: ConsumerCore, request: LeaveGroupRequest, event: GroupRequest, now: Now) -> list[Action]:
    gone: dict[str, ConsumerMember] = {}
    outcomes = []
    for identity in leaving(request, event.api_version):
        code = ErrorCode.NONE
        try:
            member = _leaver(group, identity)
            gone[member.member_id] = member
        except KafkaError as error:
            code = error.code
        outcomes.append((identity, code))
    reply = Reply(event.token, left(outcomes, event.api_version))
    return fence(group, list(gone.values()), now, [reply]) if gone else [reply]


def _leaver(group: ConsumerCore, identity: MemberIdentity) -> ConsumerMember:
    """The member that leaves. An administrator names an instance without a member id."""
    if identity.group_instance_id is None:
        return group.known_member(identity.member_id)
    member = group.static_member(identity.group_instance_id)
    if member is not None and not identity.member_id:
        return member
    return group.known_instance(identity.group_instance_id, identity.member_id)
