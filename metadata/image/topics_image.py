"""The topics and partitions of a cluster, as an immutable value, and the draft that makes the next one.

Values that a batch of records does not touch are the same objects in the next image, so that a cache of something made
from a topic may use the topic itself as the key. Sources: Kafka's ``PartitionRegistration``, ``TopicsImage`` and
``TopicsDelta``; KIP-866, KIP-858 (directories), KIP-966 (eligible leader replicas).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.directory_ids import MIGRATING
from stratalog.metadata.image.topic_names import collision_key
from stratalog.metadata.maps.frozen_dict import FrozenDict
from stratalog.metadata.maps.persistent_map import changed
from stratalog.metadata.maps.uncollected import leave_out_of_collections
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import ClearElrRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from stratalog.wire.topic import Uuid, uuid_text

__all__ = [
    "LEADER_EPOCH_MAX",
    "NO_LEADER",
    "NO_LEADER_CHANGE",
    "LeaderRecovery",
    "PartitionImage",
    "TopicImage",
    "TopicsDraft",
    "TopicsImage",
]

LEADER_EPOCH_MAX: Final = (1 << 31) - 1
NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
_NO_RECOVERY_CHANGE: Final = -1
_TOPICS_PER_PAUSE: Final = 500
_PARTITIONS_PER_PAUSE: Final = 500


class LeaderRecovery(IntEnum):
    """Whether the leader still has to recover from an unclean election (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition. Epochs only ever rise; ``replicas`` are in the order of preference."""

    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    leader_recovery: LeaderRecovery = LeaderRecovery.RECOVERED
    directories: tuple[Uuid, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_eligible: tuple[int, ...] = ()

    @property
    def preferred_replica(self) -> int:
        """The replica that leads when all is well."""
        return self.replicas[0] if self.replicas else NO_LEADER

    def directory_of(self, broker_id: int) -> Uuid:
        """The directory of one replica; `MIGRATING` where the record that made the partition named none."""
        at = self.replicas.index(broker_id)
        return self.directories[at] if at < len(self.directories) else MIGRATING

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas are being added or removed (KIP-455)."""
        return bool(self.adding_replicas or self.removing_replicas)

    @classmethod
    def of(cls, record: PartitionRecord) -> PartitionImage:
        """The partition of a record."""
        return cls(
            replicas=tuple(record.replicas),
            in_sync_replicas=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            leader_recovery=LeaderRecovery(record.leader_recovery_state),
            directories=tuple(record.directories),
            adding_replicas=tuple(record.adding_replicas),
            removing_replicas=tuple(record.removing_replicas),
            eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
            last_known_eligible=tuple(record.last_known_elr or ()),
        )

    def to_record(self, topic_id: Uuid, partition: int) -> PartitionRecord:
        """The record that says all of it."""
        return PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.in_sync_replicas),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=int(self.leader_recovery),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
            eligible_leader_replicas=list(self.eligible_leader_replicas) or None,
            last_known_elr=list(self.last_known_eligible) or None,
        )

    def raised_above(self, leader_epoch: int) -> PartitionImage:
        """The partition under the leader epoch after one that was found in use; ``leader_epoch`` is below `LEADER_EPOCH_MAX`."""
        return replace(self, leader_epoch=leader_epoch + 1, partition_epoch=self.partition_epoch + 1)

    def changed(self, record: PartitionChangeRecord) -> PartitionImage:
        """The partition after a change: its epoch rises by one, the leader epoch whenever a leader is named."""
        names_leader = record.leader != NO_LEADER_CHANGE
        recovery = record.leader_recovery_state
        return PartitionImage(  # one for each partition and start: `replace` would cost more than all the rest
            replicas=_or_same(record.replicas, self.replicas),
            in_sync_replicas=_or_same(record.isr, self.in_sync_replicas),
            leader=record.leader if names_leader else self.leader,
            leader_epoch=self.leader_epoch + 1 if names_leader else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            leader_recovery=self.leader_recovery if recovery == _NO_RECOVERY_CHANGE else LeaderRecovery(recovery),
            directories=self.directories if record.directories is None else tuple(record.directories),
            adding_replicas=_or_same(record.adding_replicas, self.adding_replicas),
            removing_replicas=_or_same(record.removing_replicas, self.removing_replicas),
            eligible_leader_replicas=_or_same(record.eligible_leader_replicas, self.eligible_leader_replicas),
            last_known_eligible=_or_same(record.last_known_elr, self.last_known_eligible),
        )


def _or_same(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic. ``version`` is that of the image in which the topic last changed; it does not count for equality."""

    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionImage]
    version: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics, by id and by name."""

    by_id: Mapping[Uuid, TopicImage] = field(default_factory=lambda: MappingProxyType({}))
    by_name: Mapping[str, TopicImage] = field(default_factory=lambda: MappingProxyType({}))
    by_collision_key: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    """The names that have a `collision_key`, by it; more than one only if the log comes from elsewhere."""
    partition_count: int = field(default=0, compare=False)
    """The partitions of all topics."""

    def partition(self, name: str, partition: int) -> PartitionImage | None:
        """One partition, or ``None`` if the topic or the partition does not exist."""
        topic = self.by_name.get(name)
        return None if topic is None else topic.partitions.get(partition)


@dataclass(slots=True)
class _Draft:
    name: str
    topic_id: Uuid
    partitions: dict[int, PartitionImage]
    changed: set[int] = field(default_factory=set)
    """The partitions that may differ from the base."""

    def build(self, version: int) -> TopicImage:
        """The topic. It may stay for years, and there may be many."""
        for number in self.changed:
            leave_out_of_collections(self.partitions[number])
        partitions = FrozenDict(self.partitions)
        leave_out_of_collections(partitions)
        topic = TopicImage(self.name, self.topic_id, partitions, version)
        leave_out_of_collections(topic)
        return topic


class TopicsDraft:
    """Changes to a `TopicsImage`, gathered record by record; only touched topics are copied."""

    __slots__ = ("_base", "_drafts", "_names", "removed")

    def __init__(self, base: TopicsImage) -> None:
        self._base = base
        self._drafts: dict[Uuid, _Draft] = {}
        self._names: dict[str, Uuid] = {}
        self.removed: dict[Uuid, str] = {}
        """Topics that existed in the base and do not any more: id to name."""

    @property
    def changed_ids(self) -> frozenset[Uuid]:
        """Topics that are new or differ from the base."""
        return frozenset(self._drafts)

    @property
    def changed_partitions(self) -> Mapping[Uuid, Collection[int]]:
        """The partitions that are new or differ from the base, by topic."""
        return {topic_id: draft.changed for topic_id, draft in self._drafts.items()}

    def create(self, record: TopicRecord) -> None:
        """A new topic. Raises `Corrupt` if its id or its name is taken."""
        topic_id, name = bytes(record.topic_id), record.name
        if topic_id in self._drafts or (topic_id in self._base.by_id and topic_id not in self.removed):
            raise Corrupt(f"a second TopicRecord for topic id {uuid_text(topic_id)} ({name})")
        owner = self._base.by_name.get(name)
        if name in self._names or (owner is not None and owner.topic_id not in self.removed):
            raise Corrupt(f"a TopicRecord for {name}, which exists under another id than {uuid_text(topic_id)}")
        self._drafts[topic_id] = _Draft(name, topic_id, {})
        self._names[name] = topic_id

    def put_partition(self, record: PartitionRecord) -> None:
        """A partition in full. Raises `Corrupt` for a topic that was never created."""
        draft = self._draft(bytes(record.topic_id), record.partition_id)
        draft.partitions[record.partition_id] = PartitionImage.of(record)
        draft.changed.add(record.partition_id)

    def change_partition(self, record: PartitionChangeRecord) -> None:
        """A change of a partition. Raises `Corrupt` for one that was never created."""
        draft = self._draft(bytes(record.topic_id), record.partition_id)
        partition = draft.partitions.get(record.partition_id)
        if partition is None:
            raise Corrupt(f"a PartitionChangeRecord for {draft.name}-{record.partition_id}, which does not exist")
        draft.partitions[record.partition_id] = partition.changed(record)
        draft.changed.add(record.partition_id)

    def remove(self, topic_id: Uuid) -> str:
        """Remove a topic and return its name. Raises `Corrupt` for one that does not exist."""
        draft = self._drafts.pop(topic_id, None)
        topic = self._base.by_id.get(topic_id)
        if draft is None and (topic is None or topic_id in self.removed):
            raise Corrupt(f"a RemoveTopicRecord for topic id {uuid_text(topic_id)}, which does not exist")
        name = draft.name if draft is not None else topic.name if topic is not None else ""
        self._names.pop(name, None)
        if topic is not None:
            self.removed[topic_id] = name
        return name

    def clear_eligible(self, record: ClearElrRecord) -> None:
        """Forget the eligible leader replicas of one topic, or of all. Raises `Corrupt` for an unknown name."""
        at_once(self.clearing_eligible)(record)

    def clearing_eligible(self, record: ClearElrRecord) -> Generator[None, None, None]:
        """The same in steps: while a broker is away every partition of the cluster may have some."""
        looked_at = 0
        if record.topic_name:
            found = self._named(record.topic_name)
            if found is None:
                raise Corrupt(f"a ClearElrRecord for {record.topic_name}, which does not exist")
            topics = [found]
        else:
            topics = self._live()
        for topic_id in topics:
            draft = self._drafts.get(topic_id)
            partitions = self._base.by_id[topic_id].partitions if draft is None else draft.partitions
            change = PartitionChangeRecord(topic_id=topic_id, eligible_leader_replicas=[], last_known_elr=[])
            for number, image in list(partitions.items()):
                looked_at += 1
                if looked_at % _PARTITIONS_PER_PAUSE == 0:
                    yield
                if image.eligible_leader_replicas or image.last_known_eligible:
                    draft = self._draft(topic_id, number)
                    draft.partitions[number] = image.changed(change)
                    draft.changed.add(number)

    def _named(self, name: str) -> Uuid | None:
        """The id of the topic that has a name now."""
        if name in self._names:
            return self._names[name]
        topic = self._base.by_name.get(name)
        return None if topic is None or topic.topic_id in self.removed else topic.topic_id

    def _live(self) -> list[Uuid]:
        """The ids of the topics that are there now."""
        base = [topic_id for topic_id in self._base.by_id if topic_id not in self.removed]
        return [*base, *(topic_id for topic_id in self._drafts if topic_id not in self._base.by_id)]

    def _draft(self, topic_id: Uuid, partition: int) -> _Draft:
        draft = self._drafts.get(topic_id)
        if draft is not None:
            return draft
        topic = self._base.by_id.get(topic_id)
        if topic is None or topic_id in self.removed:
            raise Corrupt(f"a record for partition {partition} of topic id {uuid_text(topic_id)}, which does not exist")
        draft = self._drafts[topic_id] = _Draft(topic.name, topic_id, dict(topic.partitions))
        return draft

    def build(self, version: int) -> TopicsImage:
        """The next image; the base itself if nothing changed. Changed topics carry ``version``."""
        return at_once(self.building)(version)

    def building(self, version: int) -> Generator[None, None, TopicsImage]:
        """The same in steps, some hundred topics each."""
        if not self._drafts and not self.removed:
            return self._base
        base = self._base
        before = [topic for one in {*self._drafts, *self.removed} if (topic := base.by_id.get(one)) is not None]
        topics = []
        for draft in self._drafts.values():
            topics.append(draft.build(version))
            if len(topics) % _TOPICS_PER_PAUSE == 0:
                yield
        by_id = changed(base.by_id, {}, list(self.removed))
        by_name = changed(base.by_name, {}, list(self.removed.values()))
        for first in range(0, len(topics), _TOPICS_PER_PAUSE):
            some = topics[first : first + _TOPICS_PER_PAUSE]
            by_id = changed(by_id, {topic.topic_id: topic for topic in some})
            by_name = changed(by_name, {topic.name: topic for topic in some})
            yield
        return TopicsImage(
            by_id,
            by_name,
            self._collisions(),
            base.partition_count + _partition_count(topics) - _partition_count(before),
        )

    def _collisions(self) -> Mapping[str, tuple[str, ...]]:
        """The names by collision key."""
        held = self._base.by_collision_key
        put: dict[str, tuple[str, ...]] = {}
        for name in self.removed.values():
            key = collision_key(name)
            if key is not None:
                put[key] = tuple(one for one in put.get(key, held.get(key, ())) if one != name)
        for name in self._names:
            key = collision_key(name)
            if key is not None:
                put[key] = (*put.get(key, held.get(key, ())), name)
        gone = [key for key, names in put.items() if not names and key in held]
        return changed(held, {key: names for key, names in put.items() if names}, gone) if put else held


def _partition_count(topics: Iterable[TopicImage]) -> int:
    return sum(len(topic.partitions) for topic in topics)
