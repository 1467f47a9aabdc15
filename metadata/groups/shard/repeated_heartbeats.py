"""Heartbeats that say the same as the one before, and are answered the same: nearly all that there are.

This is a shorter way to the outcome of `GroupShard.step`: the member's session begins anew, and that is all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from stratalog.metadata.coordination import Now
from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.consumer.group import ConsumerGroup
from stratalog.metadata.groups.consumer.heartbeat import bare_answer, has_no_news, says_nothing_new
from stratalog.metadata.groups.consumer.member import ConsumerMember
from stratalog.metadata.groups.shard.shard import GroupShard
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from stratalog.wire.schema import Message

__all__ = ["RepeatedHeartbeat", "repeated_classic_heartbeat", "repeated_consumer_heartbeat"]


class RepeatedHeartbeat(ABC):
    """A heartbeat that may come again, and its answer."""

    __slots__ = ("answer",)

    def __init__(self, answer: Message) -> None:
        self.answer = answer

    @abstractmethod
    def beat(self, now: Now) -> bool:
        """It has come again: the session begins anew. False if its answer may be another now: then it goes the long way.

        The facts in the answer must be committed; the caller sees to that.
        """


class _Consumer(RepeatedHeartbeat):
    __slots__ = ("_group", "_limits", "_member", "_shard")

    def __init__(self, shard: GroupShard, group: ConsumerGroup, member: ConsumerMember) -> None:
        super().__init__(bare_answer(group, member))
        self._shard = shard
        self._group = group
        self._limits = group.limits
        self._member = member

    def beat(self, now: Now) -> bool:
        """Members are replaced when anything of them changes: the same object is the same member."""
        group, member = self._group, self._member
        if (
            self._shard.groups.get(group.group_id) is not group
            or group.facts.members.get(member.member_id) is not member
            or group.limits is not self._limits
            or not has_no_news(group, member, now)
        ):
            return False
        group.begin_session(member, now)
        return True


class _Classic(RepeatedHeartbeat):
    __slots__ = ("_request", "_shard")

    def __init__(self, shard: GroupShard, request: HeartbeatRequest) -> None:
        super().__init__(HeartbeatResponse())
        self._shard = shard
        self._request = request

    def beat(self, now: Now) -> bool:
        """As the shard answers it; every error goes the long way."""
        return self._shard.heartbeat(self._request, now) == 0


def repeated_consumer_heartbeat(
    shard: GroupShard, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str, now: Now
) -> RepeatedHeartbeat | None:
    """The shorter way for this heartbeat when it comes again from the same
    client; None if it may be answered otherwise then.
    """
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        return None
    member = group.facts.members.get(request.member_id)
    if (
        member is None
        or member.epoch != request.member_epoch
        or not says_nothing_new(member, request, client_id, client_host)
        or not has_no_news(group, member, now)
    ):
        return None
    return _Consumer(shard, group, member)


def repeated_classic_heartbeat(shard: GroupShard, request: HeartbeatRequest) -> RepeatedHeartbeat | None:
    """The same for a classic member."""
    group = shard.groups.get(request.group_id)
    return _Classic(shard, request) if isinstance(group, ClassicGroup) else None
