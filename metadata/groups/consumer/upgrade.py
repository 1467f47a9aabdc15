"""From a classic group to a consumer group, when the first member of the consumer protocol joins it.

The classic members keep their assignments, which become their targets, and the generation becomes the epoch; they go on
speaking their protocol inside the new group. Sources: KIP-848 (online migration); Kafka's ``convertToConsumerGroup``,
which refuses every assignment with data beside it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from stratalog.metadata.coordination import CoordinatorRecord, Now
from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.classic.members import ClassicMember as MemberOfClassic
from stratalog.metadata.groups.consumer.group import ConsumerGroup
from stratalog.metadata.groups.consumer.member import NO_PARTITIONS, ClassicMember, ConsumerMember, Held, written_bytes
from stratalog.metadata.groups.consumer.update import metadata_hash
from stratalog.metadata.groups.surroundings import Surroundings
from stratalog.metadata.image.topics_image import TopicsImage
from stratalog.metadata.record_texts import WRITE_BYTES_MAX
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    decode_assignment,
    decode_subscription,
)
from stratalog.wire.schema import DecodeError
from stratalog.wire.topic import Uuid

__all__ = ["Upgrade", "upgrade"]

_POLICIES: Final = frozenset({"upgrade", "bidirectional"})
_CONSUMER: Final = "consumer"
_ELEMENTS_MAX: Final = 200_000
"""Topics and partitions in the subscriptions and assignments of all members. They are read at once, in some 0.1 s; a
group that has more goes on as a classic one.
"""
_CLIENTS_OWN: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Strategies that come with clients, to which data beside the assignments means nothing; librdkafka sends some back."""


class Upgrade(NamedTuple):
    """The group that takes the place of a classic one, and the records of the change."""

    group: ConsumerGroup
    records: list[CoordinatorRecord]


def upgrade(classic: ClassicGroup, surroundings: Surroundings, now: Now, newcomer_bytes: int) -> Upgrade:
    """The consumer group with the members of a classic one; the newcomer for which it changes says so many bytes.

    Raises GROUP_ID_NOT_FOUND, with the reason, if the group cannot be had that way. The classic group stays as it is, so that
    the newcomer may still be refused.
    """
    _check(classic, surroundings, newcomer_bytes)
    members = _members(classic, surroundings.image.topics)
    records = classic.tombstones()
    group = ConsumerGroup(classic.group_id, surroundings)
    facts = group.facts
    records += [facts.put_member(member) for member in members]
    number = metadata_hash(facts.topics(), surroundings.image.topics)
    records.append(facts.put_epoch(classic.generation, number))
    for member in members:
        target = {topic: frozenset(partitions) for topic, partitions in member.assigned.items()}
        records.append(facts.put_target(member.member_id, target))
    records.append(facts.put_target_epoch(classic.generation, 0))
    for member in members:
        records.append(facts.put_assignment(member))
        group.begin_session(member, now)
    return Upgrade(group, records)


def _check(classic: ClassicGroup, surroundings: Surroundings, newcomer_bytes: int) -> None:
    settings = surroundings.settings
    if settings.consumer_migration_policy.lower() not in _POLICIES:
        raise _impossible(classic, "online upgrade is disabled")
    if classic.protocol_type != _CONSUMER:
        raise _impossible(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members.by_id) > settings.consumer_max_size:
        raise _impossible(classic, "the group size exceeds the consumer group maximum size")
    size_bytes = newcomer_bytes + sum([_written_bytes(member) for member in classic.members.by_id.values()])
    if size_bytes > WRITE_BYTES_MAX:
        raise _impossible(
            classic, f"{size_bytes} bytes of its members would be written at once, over {WRITE_BYTES_MAX}"
        )


def _written_bytes(member: MemberOfClassic) -> int:
    """Those of its record, and the assignment, which is its target as well."""
    return written_bytes(member.protocols.items()) + 2 * len(member.assignment)


def _impossible(classic: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def _members(classic: ClassicGroup, topics: TopicsImage) -> list[ConsumerMember]:
    reading = _Reading(classic, topics)
    try:
        return [_member(reading, member) for member in classic.members.by_id.values()]
    except DecodeError as error:
        raise _impossible(classic, f"the embedded consumer protocol is malformed: {error}") from error


class _Reading:
    """Reads the subscriptions and assignments of all members, within `_ELEMENTS_MAX`."""

    def __init__(self, classic: ClassicGroup, topics: TopicsImage) -> None:
        self.classic = classic
        self.topics = topics
        self.taken: set[tuple[Uuid, int]] = set()
        """Partitions that have a member."""
        self._left = _ELEMENTS_MAX

    def subscription(self, data: bytes) -> ConsumerProtocolSubscription:
        """A member's subscription. Raises `DecodeError`."""
        found = decode_subscription(data, self._left)
        self._count(found.topics, found.owned_partitions)
        return found

    def assignment(self, data: bytes) -> ConsumerProtocolAssignment:
        """A member's assignment. Raises `DecodeError`."""
        found = decode_assignment(data, self._left)
        self._count((), found.assigned_partitions)
        return found

    def _count(self, names: Collection[str], parts: Collection[OwnedPartitions]) -> None:
        self._left -= len(names) + len(parts) + sum([len(part.partitions) for part in parts])


def _member(reading: _Reading, member: MemberOfClassic) -> ConsumerMember:
    classic = reading.classic
    protocol = classic.protocol_name if classic.protocol_name in member.protocols else next(iter(member.protocols))
    subscription = reading.subscription(member.protocols[protocol])
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMember(member.session_timeout_ms, tuple(member.protocols.items())),
        epoch=classic.generation,
        previous_epoch=classic.generation,
        assigned=_assigned(reading, member),
    )


def _assigned(reading: _Reading, member: MemberOfClassic) -> Held:
    """The partitions that the member was assigned by its leader. A partition
    that the leader gave to two stays with the first.
    """
    if not member.assignment:
        return NO_PARTITIONS
    classic, taken = reading.classic, reading.taken
    assignment = reading.assignment(member.assignment)
    if assignment.user_data and classic.protocol_name not in _CLIENTS_OWN:
        raise _impossible(classic, "an unsupported custom assignor is in use")
    assigned: dict[Uuid, dict[int, int]] = {}
    for part in assignment.assigned_partitions:
        topic = reading.topics.by_name.get(part.topic)
        for partition in part.partitions if topic is not None else ():
            assert topic is not None
            if (topic.topic_id, partition) not in taken:
                taken.add((topic.topic_id, partition))
                assigned.setdefault(topic.topic_id, {})[partition] = classic.generation
    return assigned or NO_PARTITIONS
