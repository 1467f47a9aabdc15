"""Everything of a consumer group that its records say, and nothing else.

State changes in one way only: by `ConsumerState.put` and `ConsumerState.delete`, which apply a record and hand out its
bytes, or by `ConsumerState.replay`, which applies a record of the log. So a group that is loaded is the group that was.
Sources: KIP-848; Kafka's ``ConsumerGroup`` and ``GroupMetadataManager.replay``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from stratalog.metadata.coordination import CoordinatorRecord
from stratalog.metadata.groups.assignors.member_spec import Partitions
from stratalog.metadata.groups.consumer.member import ConsumerMember, Held
from stratalog.wire.errors import Corrupt
from stratalog.wire.records import group as records
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

__all__ = ["ConsumerGroupState", "ConsumerState", "ResolvedPattern"]

_NO_TARGET: Final[Partitions] = MappingProxyType({})
_NO_TARGET_EPOCH: Final = -1
_MATCH_BYTES: Final = 64
"""A name in the set of those that an expression matched."""


class ConsumerGroupState(StrEnum):
    """The states of a consumer group, as they are listed."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedPattern(NamedTuple):
    """The topics that a regular expression matched: up to which offset of the metadata log, and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerState:
    """One group. ``gone`` is set by the record that deletes it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.gone = False
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.patterns: dict[str, ResolvedPattern] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.topic_subscribers: Counter[str] = Counter()
        self.pattern_subscribers: Counter[str] = Counter()
        self.assignor_votes: Counter[str] = Counter()
        self.held_bytes = 0
        """The bytes that members have said, and those of the topics that expressions matched."""
        self.classic_count = 0
        self.classic_protocols: Counter[str] = Counter()
        self.has_partition_metadata = False
        """Whether the log holds the record by which Kafka before 4.1 kept the subscribed topics."""
        self._owners: dict[Uuid, dict[int, str]] = {}

    # what follows from it

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group; it is computed, never kept."""
        if not self.members:
            return ConsumerGroupState.DEAD if self.gone else ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        epoch = self.target_epoch
        reconciled = all(member.is_reconciled_to(epoch) for member in self.members.values())
        return ConsumerGroupState.STABLE if reconciled else ConsumerGroupState.RECONCILING

    def owner(self, topic: Uuid, partition: int) -> str | None:
        """The member that holds a partition, be it to give it up."""
        owners = self._owners.get(topic)
        return None if owners is None else owners.get(partition)

    def target(self, member_id: str) -> Partitions:
        """The partitions that a member should have."""
        return self.targets.get(member_id, _NO_TARGET)

    def topics(self) -> frozenset[str]:
        """The names that members subscribe to, by name or by expression, whether such topics exist or not."""
        found = set(self.topic_subscribers)
        for pattern in self.pattern_subscribers:
            if (resolved := self.patterns.get(pattern)) is not None:
                found |= resolved.topics
        return frozenset(found)

    def subscribes(self, topic: str) -> bool:
        """Whether a member subscribes to a topic."""
        return topic in self.topic_subscribers or any(
            topic in self.patterns[pattern].topics for pattern in self.pattern_subscribers if pattern in self.patterns
        )

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names that one member subscribes to."""
        resolved = self.patterns.get(member.topic_pattern) if member.topic_pattern else None
        if resolved is None:
            return member.topic_names
        return resolved.topics | member.topic_names if member.topic_names else resolved.topics

    def assignor(self, default: str) -> str:
        """The assignor that most members ask for; of equals the first by name."""
        return max(sorted(self.assignor_votes), key=self.assignor_votes.__getitem__, default=default)

    # records

    def put(self, key: Message, value: Message) -> CoordinatorRecord:
        """Apply a record, and its bytes. Raises `EncodeError` for one that cannot be written; it is not applied then."""
        record = CoordinatorRecord(records.encode_key(key), records.encode_value(value))
        self.replay(key, value)
        return record

    def delete(self, key: Message) -> CoordinatorRecord:
        """Apply the deletion of what a key names, and its bytes."""
        self.replay(key, None)
        return CoordinatorRecord(records.encode_key(key), None)

    def replay(self, key: Message, value: Message | None) -> None:
        """Apply a record. Raises `Corrupt` for one that is none of a consumer group's."""
        apply = self._REPLAY.get(type(key))
        if apply is None:
            raise Corrupt(f"a {type(key).__name__} is no record of a consumer group ({self.group_id})")
        apply(self, key, value)

    def member_tombstones(self, member_id: str) -> list[CoordinatorRecord]:
        """Remove a member. The order is Kafka's, which checks it when it reads them."""
        group_id = self.group_id
        return [
            self.delete(records.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
            self.delete(records.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
            self.delete(records.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
        ]

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group; nothing is applied."""
        group_id, member_ids = self.group_id, list(self.members)
        keys: list[Message] = [
            *(
                records.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=name)
                for name in member_ids
            ),
            *(records.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=name) for name in member_ids),
            records.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
            *(records.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=name) for name in member_ids),
            *(
                records.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
                for pattern in self.patterns
            ),
            records.ConsumerGroupPartitionMetadataKey(group_id=group_id),
            records.ConsumerGroupMetadataKey(group_id=group_id),
        ]
        return [CoordinatorRecord(records.encode_key(key), None) for key in keys]

    def put_member(self, member: ConsumerMember) -> CoordinatorRecord:
        """Keep a member's description of itself."""
        key = records.ConsumerGroupMemberMetadataKey(group_id=self.group_id, member_id=member.member_id)
        return self.put(key, member.metadata_value())

    def put_assignment(self, member: ConsumerMember) -> CoordinatorRecord:
        """Keep the partitions that a member has."""
        key = records.ConsumerGroupCurrentMemberAssignmentKey(group_id=self.group_id, member_id=member.member_id)
        return self.put(key, member.assignment_value())

    def put_target(self, member_id: str, target: Partitions) -> CoordinatorRecord:
        """Keep the partitions that a member should have."""
        key = records.ConsumerGroupTargetAssignmentMemberKey(group_id=self.group_id, member_id=member_id)
        value = records.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                records.TargetTopicPartition(topic_id=topic, partitions=sorted(partitions))
                for topic, partitions in target.items()
            ]
        )
        return self.put(key, value)

    def put_target_epoch(self, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
        """The targets are those of this group epoch."""
        key = records.ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id)
        return self.put(
            key,
            records.ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=timestamp_ms
            ),
        )

    def put_epoch(self, epoch: int, metadata_hash: int) -> CoordinatorRecord:
        """The group is in this epoch, for topics of this hash."""
        key = records.ConsumerGroupMetadataKey(group_id=self.group_id)
        return self.put(key, records.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))

    def put_pattern(self, pattern: str, resolved: ResolvedPattern) -> CoordinatorRecord:
        """Keep the topics that an expression matches."""
        key = records.ConsumerGroupRegularExpressionKey(group_id=self.group_id, regular_expression=pattern)
        value = records.ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        )
        return self.put(key, value)

    def delete_pattern(self, pattern: str) -> CoordinatorRecord:
        """Forget an expression without subscribers."""
        return self.delete(
            records.ConsumerGroupRegularExpressionKey(group_id=self.group_id, regular_expression=pattern)
        )

    # how each record is applied

    def _replay_epoch(
        self, _key: records.ConsumerGroupMetadataKey, value: records.ConsumerGroupMetadataValue | None
    ) -> None:
        self.gone = value is None
        if value is not None:
            self.epoch = value.epoch
            self.metadata_hash = value.metadata_hash

    def _replay_partition_metadata(
        self,
        _key: records.ConsumerGroupPartitionMetadataKey,
        value: records.ConsumerGroupPartitionMetadataValue | None,
    ) -> None:
        self.has_partition_metadata = value is not None

    def _replay_member(
        self, key: records.ConsumerGroupMemberMetadataKey, value: records.ConsumerGroupMemberMetadataValue | None
    ) -> None:
        old = self.members.get(key.member_id)
        if value is not None:
            self._exchange(old, (old or ConsumerMember(key.member_id)).with_metadata(value))
            if value.instance_id is not None:
                self.static_members[value.instance_id] = key.member_id
        elif old is not None:
            self._exchange(old, None)

    def _replay_target_epoch(
        self,
        _key: records.ConsumerGroupTargetAssignmentMetadataKey,
        value: records.ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        self.target_epoch = _NO_TARGET_EPOCH if value is None else value.assignment_epoch
        self.target_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _replay_target(
        self,
        key: records.ConsumerGroupTargetAssignmentMemberKey,
        value: records.ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
            return
        self.targets[key.member_id] = {
            bytes(part.topic_id): frozenset(part.partitions) for part in value.topic_partitions if part.partitions
        }

    def _replay_assignment(
        self,
        key: records.ConsumerGroupCurrentMemberAssignmentKey,
        value: records.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        old = self.members.get(key.member_id)
        if value is not None:
            self._exchange(old, (old or ConsumerMember(key.member_id)).with_assignment(value))
        elif old is not None:
            self._exchange(old, old.gone())

    def _replay_pattern(
        self,
        key: records.ConsumerGroupRegularExpressionKey,
        value: records.ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if (before := self.patterns.get(key.regular_expression)) is not None:
            self.held_bytes -= len(before.topics) * _MATCH_BYTES
        if value is None:
            self.patterns.pop(key.regular_expression, None)
            return
        topics = frozenset(value.topics)
        self.held_bytes += len(topics) * _MATCH_BYTES
        self.patterns[key.regular_expression] = ResolvedPattern(topics, value.version, value.timestamp)

    _REPLAY: ClassVar[Mapping[type[Message], Callable[[ConsumerState, Any, Any], None]]] = {
        records.ConsumerGroupMetadataKey: _replay_epoch,
        records.ConsumerGroupPartitionMetadataKey: _replay_partition_metadata,
        records.ConsumerGroupMemberMetadataKey: _replay_member,
        records.ConsumerGroupTargetAssignmentMetadataKey: _replay_target_epoch,
        records.ConsumerGroupTargetAssignmentMemberKey: _replay_target,
        records.ConsumerGroupCurrentMemberAssignmentKey: _replay_assignment,
        records.ConsumerGroupRegularExpressionKey: _replay_pattern,
    }

    # what is counted beside the members

    def _exchange(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        if old is not None:
            self._uncount(old)
        if new is not None:
            self._count(new)
            self.members[new.member_id] = new
        elif old is not None:
            del self.members[old.member_id]

    def _count(self, member: ConsumerMember) -> None:
        self.held_bytes += member.held_bytes
        self.topic_subscribers.update(member.topic_names)
        if member.topic_pattern:
            self.pattern_subscribers[member.topic_pattern] += 1
        if member.assignor is not None:
            self.assignor_votes[member.assignor] += 1
        if member.classic is not None:
            self.classic_count += 1
            self.classic_protocols.update(name for name, _ in member.classic.protocols)
        if member.instance_id is not None:
            self.static_members.setdefault(member.instance_id, member.member_id)
        for topic, partition in _holdings(member):
            self._owners.setdefault(topic, {})[partition] = member.member_id

    def _uncount(self, member: ConsumerMember) -> None:
        self.held_bytes -= member.held_bytes
        _discount(self.topic_subscribers, member.topic_names)
        if member.topic_pattern:
            _discount(self.pattern_subscribers, (member.topic_pattern,))
        if member.assignor is not None:
            _discount(self.assignor_votes, (member.assignor,))
        if member.classic is not None:
            self.classic_count -= 1
            _discount(self.classic_protocols, (name for name, _ in member.classic.protocols))
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
        for topic, partition in _holdings(member):
            owners = self._owners.get(topic, {})
            if owners.get(partition) == member.member_id:
                del owners[partition]


def _holdings(member: ConsumerMember) -> Iterable[tuple[Uuid, int]]:
    held: Held
    for held in (member.assigned, member.revoking):
        for topic, partitions in held.items():
            for partition in partitions:
                yield topic, partition


def _discount(counter: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        if counter[name] > 1:
            counter[name] -= 1
        else:
            del counter[name]
