"""A member of a consumer group: what it said of itself, and how far it has come towards its target.

Members are values; a change makes another one. Sources: KIP-848, KIP-1251 (the epoch in which a partition was given).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from stratalog.wire.records.group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
)
from stratalog.wire.topic import Uuid

__all__ = [
    "JOIN_EPOCH",
    "LEAVE_EPOCH",
    "NO_PARTITIONS",
    "STATIC_LEAVE_EPOCH",
    "ClassicMember",
    "ConsumerMember",
    "Held",
    "MemberState",
    "written_bytes",
]

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2

Held = Mapping[Uuid, Mapping[int, int]]
"""Partitions by topic, each with the member epoch in which it was given."""

NO_PARTITIONS: Final[Mapping[Uuid, Mapping[int, int]]] = MappingProxyType({})


class MemberState(IntEnum):
    """Where a member stands; the numbers are those of its record."""

    STABLE = 0
    """The member has reached its target."""
    UNREVOKED_PARTITIONS = 1
    """It has been asked to give partitions up, and has not said yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """A state of a later Kafka."""

    @classmethod
    def of(cls, number: int) -> MemberState:
        """The state of a record."""
        return cls(number) if number in _STATE_NUMBERS else cls.UNKNOWN


_STATE_NUMBERS: Final = frozenset(MemberState)


class ClassicMember(Struct, frozen=True):
    """The facts kept of a member that speaks the classic protocol; its protocols in its order of preference."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


def written_bytes(protocols: Iterable[tuple[str, bytes]]) -> int:
    """The bytes of the record of a member that speaks the classic protocol: all its protocols, and the names in one once more."""
    sizes = [len(name.encode()) + len(metadata) for name, metadata in protocols]
    return sum(sizes) + max(sizes, default=0)


class ConsumerMember(Struct, frozen=True):
    """One member. ``topic_pattern`` is empty without one, ``classic`` is None for the consumer protocol."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_pattern: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMember | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=lambda: NO_PARTITIONS)
    revoking: Held = field(default_factory=lambda: NO_PARTITIONS)

    @property
    def held_bytes(self) -> int:
        """The bytes that it has said of itself."""
        said = sum([len(name) for name in self.topic_names]) + len(self.topic_pattern)
        if self.classic is not None:
            said += sum([len(name) + len(metadata) for name, metadata in self.classic.protocols])
        return said + len(self.client_id) + len(self.rack_id or "") + len(self.instance_id or "")

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has the target of that epoch, and nothing else."""
        return self.epoch == target_epoch and self.state is MemberState.STABLE

    def at(self, epoch: int, state: MemberState, assigned: Held, revoking: Held) -> ConsumerMember:
        """The member a step further; the epoch that it was at is the previous one now."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking)

    def gone(self) -> ConsumerMember:
        """The member after its current assignment was deleted."""
        return replace(
            self,
            epoch=LEAVE_EPOCH,
            previous_epoch=LEAVE_EPOCH,
            assigned=NO_PARTITIONS,
            revoking=NO_PARTITIONS,
        )

    def away(self) -> ConsumerMember:
        """The static member while it restarts: it keeps its partitions, as if it had been given them before any epoch."""
        assigned = {topic: dict.fromkeys(partitions, 0) for topic, partitions in self.assigned.items()}
        return replace(self, epoch=STATIC_LEAVE_EPOCH, assigned=assigned, revoking=NO_PARTITIONS)

    def succeeded_by(self, member_id: str) -> ConsumerMember:
        """The static member under the id of the process that took its place."""
        return replace(self, member_id=member_id, epoch=0, previous_epoch=0)

    def given_in(self, topic: Uuid, partition: int) -> int | None:
        """The epoch in which it was given a partition that it has, or is about to give up; None for any other."""
        for held in (self.assigned, self.revoking):
            partitions = held.get(topic)
            if partitions is not None and partition in partitions:
                return partitions[partition]
        return None

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        """The record of what it said."""
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
            subscribed_topic_regex=self.topic_pattern,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=None if self.classic is None else _classic_value(self.classic),
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """The member after that record."""
        classic = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_pattern=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=None if classic is None else _classic_member(classic),
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """The record of what it has."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_held_value(self.assigned),
            partitions_pending_revocation=_held_value(self.revoking),
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        """The member after that record. Before Kafka 4.3 partitions had no epoch: they count from the member's."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=_held(value.assigned_partitions, value.member_epoch),
            revoking=_held(value.partitions_pending_revocation, value.member_epoch),
        )


def _classic_value(classic: ClassicMember) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
    )


def _classic_member(value: ClassicMemberMetadata) -> ClassicMember:
    return ClassicMember(
        session_timeout_ms=value.session_timeout_ms,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in value.supported_protocols),
    )


def _held_value(held: Held) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[partition] for partition in sorted(partitions)],
        )
        for topic, partitions in held.items()
    ]


def _held(values: Iterable[CurrentTopicPartitions], member_epoch: int) -> Held:
    held: dict[Uuid, Mapping[int, int]] = {}
    for value in values:
        if value.assignment_epochs is None:
            held[bytes(value.topic_id)] = dict.fromkeys(value.partitions, member_epoch)
        else:
            held[bytes(value.topic_id)] = dict(zip(value.partitions, value.assignment_epochs, strict=False))
    return held or NO_PARTITIONS
