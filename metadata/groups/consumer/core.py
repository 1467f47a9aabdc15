"""Shared by all requests of members of a consumer group: the group's facts, its deadlines, its members by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum, auto
from typing import Any

from stratalog.metadata.coordination import Action, CoordinatorRecord, Now, Reply, Write
from stratalog.metadata.groups.consumer.member import ConsumerMember, MemberState
from stratalog.metadata.groups.consumer.state import ConsumerState
from stratalog.metadata.groups.consumer.update import ConsumerUpdate, TopicsSeen, assignment_is_due, patterns_outdated
from stratalog.metadata.groups.group import Group
from stratalog.metadata.groups.group_limits import GroupLimits, group_limits
from stratalog.metadata.groups.member_timers import MemberTimers
from stratalog.metadata.groups.surroundings import Surroundings
from stratalog.metadata.image.configs_image import ConfigResource, ResourceType
from stratalog.metadata.record_texts import check_text
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.schema import Message

__all__ = ["ConsumerCore", "Timer", "outcome"]


class Timer(IntEnum):
    """The kinds of deadlines a member has."""

    SESSION = auto()
    """To be heard of."""
    REVOCATION = auto()
    """To give up the partitions that it was asked to give up."""
    JOIN = auto()
    """To join again, for a classic member that knows of a rebalance."""
    SYNC = auto()
    """To fetch its assignment, for a classic member that has joined."""


class ConsumerCore:
    """One consumer group, without the requests. ``facts`` changes by records only."""

    def __init__(self, group_id: str, surroundings: Surroundings) -> None:
        self.group_id = group_id
        self.facts = ConsumerState(group_id)
        self.surroundings = surroundings
        self.timers: MemberTimers[tuple[Timer, str]] = MemberTimers()
        self.successor: Group | None = None
        """The classic group that takes its place, once it has become one."""
        self._seen = TopicsSeen()
        self._limits: tuple[object, object, GroupLimits] | None = None

    @property
    def limits(self) -> GroupLimits:
        """The times that hold for this group."""
        settings, configs = self.surroundings.settings, self.surroundings.image.configs
        known = self._limits
        if known is not None and known[0] is settings and known[1] is configs:
            return known[2]
        limits = group_limits(settings, configs.of(ConfigResource(ResourceType.GROUP, self.group_id)))
        self._limits = (settings, configs, limits)
        return limits

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group."""
        return self.facts.tombstones()

    def update(self, now: Now, may_see: Callable[[str], bool] | None = None) -> ConsumerUpdate:
        """A change of the group, to be made; for a member that may know of some topics only."""
        return ConsumerUpdate(self.facts, self._seen, self.surroundings, self.limits, now, may_see)

    def is_up_to_date(self, now: Now) -> bool:
        """Whether the topics are those that the targets were computed for, as far as it is known."""
        facts, topics = self.facts, self.surroundings.image.topics
        return (
            facts.epoch == facts.target_epoch
            and self._seen.topics is topics
            and not patterns_outdated(facts, self._seen, self.surroundings, now)
        )

    def wants_rejoin(self, member: ConsumerMember, now: Now) -> bool:
        """Whether a classic member has to join again to get further: newer targets are there, or can be computed."""
        return member.epoch < self.facts.target_epoch or assignment_is_due(self.facts, self.limits, now)

    def check_room(self, member_id: str) -> None:
        """Raises GROUP_MAX_SIZE_REACHED for a new member of a full group, INVALID_REQUEST for an id too long to be kept."""
        check_text("MemberId", member_id)
        maximum = self.surroundings.settings.consumer_max_size
        if len(self.facts.members) >= maximum and member_id not in self.facts.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {maximum} members.",
            )

    def known_member(self, member_id: str) -> ConsumerMember:
        """The member. Raises UNKNOWN_MEMBER_ID."""
        member = self.facts.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member that is this instance."""
        member_id = self.facts.static_members.get(instance_id)
        return None if member_id is None else self.facts.members[member_id]

    def known_instance(self, instance_id: str, member_id: str) -> ConsumerMember:
        """The member that is this instance. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID if it has another id."""
        member = self.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
            )
        return member

    def begin_session(self, member: ConsumerMember, now: Now) -> None:
        """The member was heard of."""
        timeout_ms = self.limits.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
        self.timers.set((Timer.SESSION, member.member_id), now.monotonic_ms + timeout_ms)

    def after_step(self, before: ConsumerMember, after: ConsumerMember, now: Now) -> None:
        """A member that has to give up partitions has its rebalance time-out for that, counted from the answer that says so.

        If that was an answer of the classic protocol, it counts from the first heartbeat of this one.
        """
        is_timed = (Timer.REVOCATION, after.member_id) in self.timers
        has_to_give_up = after.state is MemberState.UNREVOKED_PARTITIONS
        if after.classic is not None or (after is before and (is_timed or not has_to_give_up)):
            return
        if has_to_give_up:
            self.timers.set((Timer.REVOCATION, after.member_id), now.monotonic_ms + after.rebalance_timeout_ms)
        else:
            self.timers.cancel((Timer.REVOCATION, after.member_id))

    def cancel_timers(self, member_id: str) -> None:
        """Expect no more steps of a member."""
        for timer in Timer:
            self.timers.cancel((timer, member_id))


def outcome(token: Any, answer: Message, records: Sequence[CoordinatorRecord]) -> list[Action]:
    """An answer that leaves with its records, or when what it tells of is committed."""
    if records:
        return [Write(records, [Reply(token, answer)])]
    return [Reply(token, answer, durable=True)]
