"""One step of a member towards its target, so that no partition ever has two owners.

A member first gives up what does not belong to its target and says so, then moves to the epoch of its target, and then
is given whatever of it no other member still holds. Sources: KIP-848; Kafka's ``CurrentAssignmentBuilder``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from msgspec import Struct

from stratalog.metadata.groups.assignors.member_spec import Partitions
from stratalog.metadata.groups.consumer.member import NO_PARTITIONS, ConsumerMember, Held, MemberState
from stratalog.wire.topic import Uuid

__all__ = ["Owned", "Reconciliation"]

Owned = Mapping[Uuid, AbstractSet[int]]
"""The partitions that a member says it owns."""

_NOTHING: AbstractSet[int] = frozenset()
_NONE_HELD: Mapping[int, int] = {}


class Reconciliation(Struct, frozen=True):
    """Everything that decides a member's next step."""

    target_epoch: int
    target: Partitions
    subscribed: AbstractSet[Uuid]
    """The topics that the member subscribes to now: it keeps no others, even before there is a newer target."""
    owner: Callable[[Uuid, int], str | None]
    """The member that holds a partition now, be it to give it up."""
    owned: Owned | None
    """None if the member has not said what it owns."""

    def step(self, member: ConsumerMember) -> ConsumerMember:
        """The member after the step; the same object if there is none to take."""
        if member.state is MemberState.STABLE and member.epoch == self.target_epoch:
            return self._without_unsubscribed(member)
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._still_owns(member.revoking):
            return self._without_unsubscribed(member)
        return self._towards_target(member)

    def _still_owns(self, revoking: Held) -> bool:
        if self.owned is None:
            return True
        return any(
            not partitions.keys().isdisjoint(self.owned.get(topic, _NOTHING)) for topic, partitions in revoking.items()
        )

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Take away the topics that are no longer subscribed to, without waiting for the next target."""
        dropped = {topic: held for topic, held in member.assigned.items() if topic not in self.subscribed}
        if not dropped:
            return member
        kept = {topic: held for topic, held in member.assigned.items() if topic not in dropped}
        revoking = {**member.revoking}
        for topic, held in dropped.items():
            revoking[topic] = {**revoking.get(topic, _NONE_HELD), **held}
        if self._still_owns(revoking):
            return member.at(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
        return member.at(member.epoch, member.state, kept, member.revoking)

    def _towards_target(self, member: ConsumerMember) -> ConsumerMember:
        kept, revoking, given = {}, {}, {}
        waits = False
        for topic in {*self.target, *member.assigned}:
            target = self.target.get(topic, _NOTHING) if topic in self.subscribed else _NOTHING
            held = member.assigned.get(topic, _NONE_HELD)
            if staying := {partition: epoch for partition, epoch in held.items() if partition in target}:
                kept[topic] = staying
            if leaving := {partition: epoch for partition, epoch in held.items() if partition not in target}:
                revoking[topic] = leaving
            free = [
                partition for partition in target if partition not in held and self._is_free(member, topic, partition)
            ]
            waits = waits or len(free) + len(staying) < len(target)
            if free:
                given[topic] = free
        if revoking and self._still_owns(revoking):
            return member.at(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
        for topic, partitions in given.items():
            # The member has kept what it was giving up all the time: commits from before stay right.
            held = member.revoking.get(topic, _NONE_HELD)
            new = {partition: held.get(partition, self.target_epoch) for partition in partitions}
            kept[topic] = {**kept.get(topic, _NONE_HELD), **new}
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        if self._unchanged(member, state, kept):
            return member
        return member.at(self.target_epoch, state, kept or NO_PARTITIONS, NO_PARTITIONS)

    def _unchanged(self, member: ConsumerMember, state: MemberState, kept: Held) -> bool:
        return (
            member.epoch == self.target_epoch
            and member.state is state
            and not member.revoking
            and member.assigned == kept
        )

    def _is_free(self, member: ConsumerMember, topic: Uuid, partition: int) -> bool:
        owner = self.owner(topic, partition)
        return owner is None or (owner == member.member_id and partition in member.revoking.get(topic, _NONE_HELD))
