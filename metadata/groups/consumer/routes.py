"""How the shard of a group finds what a consumer group does: the requests and records that are its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stratalog.metadata.coordination import Action, CoordinatorRecord, Now, Reply, Write
from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.consumer.describe import describe_group
from stratalog.metadata.groups.consumer.group import ConsumerGroup
from stratalog.metadata.groups.consumer.member import JOIN_EPOCH
from stratalog.metadata.groups.consumer.requests import DescribeConsumerGroup, check_heartbeat, said_bytes
from stratalog.metadata.groups.consumer.shard_groups import ShardGroups
from stratalog.metadata.groups.consumer.upgrade import upgrade
from stratalog.metadata.groups.group import Group, GroupRequest
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.schema import Message

__all__ = ["ROUTES", "replay_consumer_record"]


def _heartbeat(shard: ShardGroups, event: GroupRequest, now: Now) -> list[Action]:
    """A ConsumerGroupHeartbeat, to a group of either kind or to none."""
    request: Any = event.request
    check_heartbeat(request, event.api_version, shard.settings.consumer_assignors)
    group = shard.groups.get(event.group_id)
    if isinstance(group, ConsumerGroup):
        actions = group.step(event, now)
        shard.look_after(group)
        return actions
    if request.member_epoch != JOIN_EPOCH:
        kind = "Group" if request.member_epoch < JOIN_EPOCH else "Consumer group"  # Kafka's words for a leave
        reason = f"{kind} {event.group_id} not found." if group is None else _other_kind(event.group_id)
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, reason)
    if isinstance(group, ClassicGroup) and group.members.by_id:
        return _upgraded(shard, group, event, now)
    return _created(shard, group, event, now)


def _other_kind(group_id: str) -> str:
    return f"Group {group_id} is not a consumer group."


def _upgraded(shard: ShardGroups, classic: ClassicGroup, event: GroupRequest, now: Now) -> list[Action]:
    """The group changes its kind and takes its first member of the new one, in one append; it stays if that is refused."""
    request: Any = event.request
    if request.subscribed_topic_regex:
        shard.patterns.check(request.subscribed_topic_regex)
    change = upgrade(classic, shard, now, said_bytes(request))
    actions = change.group.step(event, now)
    if not any(isinstance(action, Write) for action in actions):
        return actions
    replies = classic.parked_replies(ErrorCode.REBALANCE_IN_PROGRESS)
    shard.put(change.group)
    return [*replies, *_preceded(change.records, actions)]


def _preceded(records: list[CoordinatorRecord], actions: list[Action]) -> list[Action]:
    """The actions, whose first append begins with these records, so that they are in the log together."""
    for action in actions:
        if isinstance(action, Write):
            action.records = [*records, *action.records]
            return actions
    return [Write(records), *actions]


def _created(shard: ShardGroups, former: Group | None, event: GroupRequest, now: Now) -> list[Action]:
    """A new group, in the place of one that only holds offsets or has no members; not kept if the request fails."""
    group = ConsumerGroup(event.group_id, shard)
    actions = group.step(event, now)
    if group.facts.epoch == 0:
        return actions
    tombstones = [] if former is None else former.tombstones()
    shard.put(group)
    return _preceded(tombstones, actions)


def _describe(shard: ShardGroups, event: GroupRequest, _now: Now) -> list[Action]:
    """A group described, as a response with this one group."""
    group = shard.groups.get(event.group_id)
    if not isinstance(group, ConsumerGroup):
        reason = f"Group {event.group_id} not found." if group is None else _other_kind(event.group_id)
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, reason)
    described = describe_group(group.facts, shard.image.topics, shard.settings.consumer_assignors[0])
    return [Reply(event.token, ConsumerGroupDescribeResponse(groups=[described]), durable=True)]


def replay_consumer_record(shard: ShardGroups, key: Any, value: Message | None) -> None:
    """Apply a record of a consumer group; it makes the group if there is none, or one of offsets alone.

    Raises `Corrupt` for a record of a group that is a classic one with a generation.
    """
    group = shard.groups.get(key.group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return
        if isinstance(group, ClassicGroup) and group.persisted:
            raise Corrupt(f"a {type(key).__name__} of the classic group {key.group_id}")
        group = ConsumerGroup(key.group_id, shard)
        shard.put(group)
    group.replay(key, value)
    if group.facts.gone:
        shard.drop(key.group_id)


ROUTES: Final[dict[type[Any], Callable[[ShardGroups, GroupRequest, Now], list[Action]]]] = {
    ConsumerGroupHeartbeatRequest: _heartbeat,
    DescribeConsumerGroup: _describe,
}
"""By the class of the request."""
