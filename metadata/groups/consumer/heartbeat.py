"""The heartbeats of the consumer protocol: join, stay, leave.

A heartbeat is checked first and changes something only then. Sources: KIP-848; Kafka's ``consumerGroupHeartbeat`` and
``consumerGroupLeave``.
"""

from __future__ import annotations

from msgspec.structs import replace

from stratalog.metadata.coordination import Action, Now, Reply, Write
from stratalog.metadata.groups.consumer.core import ConsumerCore, Timer, outcome
from stratalog.metadata.groups.consumer.fence import fence
from stratalog.metadata.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    Held,
    MemberState,
)
from stratalog.metadata.groups.consumer.requests import is_full, owned_partitions, said_bytes
from stratalog.metadata.groups.group import GroupRequest
from stratalog.metadata.record_texts import WRITE_BYTES_MAX
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

__all__ = ["bare_answer", "has_no_news", "says_nothing_new", "serve_heartbeat"]


def serve_heartbeat(
    group: ConsumerCore, request: ConsumerGroupHeartbeatRequest, event: GroupRequest, now: Now
) -> list[Action]:
    """A heartbeat that is well formed.

    Raises UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED,
    INVALID_REGULAR_EXPRESSION, INVALID_REQUEST; nothing has changed then.
    """
    if request.member_epoch in {LEAVE_EPOCH, STATIC_LEAVE_EPOCH}:
        return _leave(group, request, event, now)
    member = group.facts.members.get(request.member_id)
    if (
        member is not None
        and request.member_epoch == member.epoch
        and says_nothing_new(member, request, event.client_id, event.client_host)
        and has_no_news(group, member, now)
    ):
        group.begin_session(member, now)
        return [Reply(event.token, bare_answer(group, member), durable=True)]
    return _change(group, request, event, now)


def says_nothing_new(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> bool:
    """Whether a heartbeat tells nothing of its member that is not known."""
    return (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rebalance_timeout_ms == -1
        and request.rack_id is None
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and member.client_id == client_id
        and member.client_host == client_host
        and member.classic is None
    )


def has_no_news(group: ConsumerCore, member: ConsumerMember, now: Now) -> bool:
    """Whether there is nothing to tell a member, nor to find out."""
    return (
        member.epoch == group.facts.target_epoch > 0 and member.state is MemberState.STABLE and group.is_up_to_date(now)
    )


def _change(group: ConsumerCore, request: ConsumerGroupHeartbeatRequest, event: GroupRequest, now: Now) -> list[Action]:
    member_id = request.member_id or event.fresh_id
    group.check_room(member_id)
    _check_size(request)
    known, before = _find(group, request, member_id)
    said = _said(before, request, event)
    if said.topic_pattern and said.topic_pattern not in group.facts.patterns:
        group.surroundings.patterns.check(said.topic_pattern)
    update = group.update(now, event.may_see)
    if known is not None and (known.member_id != member_id or known.classic is not None):
        group.cancel_timers(known.member_id)  # those of the classic protocol are for requests that it sends no more
    if known is not None and known.member_id != member_id:
        update.replace(known, before)
    update.say(before, said)
    update.refresh_patterns()
    after = update.finish(said, owned_partitions(request))
    group.after_step(said, after, now)
    group.begin_session(after, now)
    return outcome(event.token, _answer(group, request, before, after), update.records)


def _check_size(request: ConsumerGroupHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST if the record of the member would be too large."""
    size_bytes = said_bytes(request)
    if size_bytes > WRITE_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The subscription has {size_bytes} bytes; a member may have {WRITE_BYTES_MAX} kept of it.",
        )


def _find(
    group: ConsumerCore, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> tuple[ConsumerMember | None, ConsumerMember]:
    """The member known under the id or instance of a request, and that member as the one that asks."""
    joins = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        known = group.facts.members.get(member_id) if joins else group.known_member(member_id)
    elif joins:
        known = group.static_member(request.instance_id)
        if known is not None:
            _check_released(known, request.instance_id, member_id)
            return known, known.succeeded_by(member_id)
    else:
        known = group.known_instance(request.instance_id, member_id)
    if known is None:
        return None, ConsumerMember(member_id)
    _check_epoch(known, request)
    return known, known


def _check_released(known: ConsumerMember, instance_id: str, member_id: str) -> None:
    """Raises UNRELEASED_INSTANCE_ID unless the member has left for a while, or speaks the classic protocol."""
    if known.classic is None and known.epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {known.member_id} member.",
        )


def _said(before: ConsumerMember, request: ConsumerGroupHeartbeatRequest, event: GroupRequest) -> ConsumerMember:
    """The member with what a request says of it; what a request leaves out stays as it was."""
    return replace(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        topic_names=(
            before.topic_names if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names)
        ),
        topic_pattern=before.topic_pattern
        if request.subscribed_topic_regex is None
        else request.subscribed_topic_regex,
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        assignor=before.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raises FENCED_MEMBER_EPOCH unless it is the member's epoch; or the one before, if the answer may have been lost."""
    epoch = request.member_epoch
    owned = owned_partitions(request)
    if epoch == JOIN_EPOCH:
        return
    if epoch > member.epoch:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )
    if epoch < member.epoch and (
        epoch != member.previous_epoch
        or owned is None
        or not all(partitions <= member.assigned.get(topic, {}).keys() for topic, partitions in owned.items())
    ):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )
    if member.state is MemberState.UNKNOWN and (owned is None or any(owned.values())):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )


def _leave(group: ConsumerCore, request: ConsumerGroupHeartbeatRequest, event: GroupRequest, now: Now) -> list[Action]:
    if request.instance_id is None:
        member = group.known_member(request.member_id)
    else:
        member = group.known_instance(request.instance_id, request.member_id)
    answer = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        group.timers.cancel((Timer.REVOCATION, member.member_id))
        return [Write([group.facts.put_assignment(member.away())], [Reply(event.token, answer)])]
    return fence(group, [member], now, [Reply(event.token, answer)])


def bare_answer(group: ConsumerCore, member: ConsumerMember) -> ConsumerGroupHeartbeatResponse:
    """The answer to a member to whom there is nothing to tell."""
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id, member_epoch=member.epoch, heartbeat_interval_ms=group.limits.heartbeat_interval_ms
    )


def _answer(
    group: ConsumerCore, request: ConsumerGroupHeartbeatRequest, before: ConsumerMember, after: ConsumerMember
) -> ConsumerGroupHeartbeatResponse:
    answer = bare_answer(group, after)
    if request.member_epoch == JOIN_EPOCH or is_full(request) or _differ(before.assigned, after.assigned):
        answer.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic, partitions=sorted(partitions))
                for topic, partitions in after.assigned.items()
            ]
        )
    return answer


def _differ(one: Held, other: Held) -> bool:
    if one.keys() != other.keys():
        return True
    return any(partitions.keys() != other[topic].keys() for topic, partitions in one.items())
