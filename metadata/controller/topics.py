"""The controller's answers to requests about topics: create, delete, more partitions.

Pure: an image and a command give records and an answer for each topic. Ids of topics and chance come from the
caller. Sources of rules and texts: Kafka's ``ReplicationControlManager``, ``ControllerApis``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from stratalog.metadata.controller.placement import (
    NextInt,
    check_assignment,
    placing_replicas,
)
from stratalog.metadata.image.brokers_image import BrokerImage, BrokersImage
from stratalog.metadata.image.configs_image import ResourceType
from stratalog.metadata.image.decision import Decision, Failure, Permit, Steps, at_once, failure_of, no_limit
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topic_names import CLUSTER_METADATA_TOPIC, check_topic_name, collision_key
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.metadata.settings.catalogue.types import ConfigError
from stratalog.metadata.settings.resolution import ConfigEntry, ConfigResolver
from stratalog.metadata.settings.topic_rules import validate_topic_configs
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import ConfigRecord, RemoveTopicRecord, TopicRecord
from stratalog.wire.schema import Message
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = [
    "USE_DEFAULT",
    "CreatedTopic",
    "NewPartitions",
    "NewTopic",
    "TopicRules",
    "create_partitions",
    "create_topics",
    "creating_partitions",
    "creating_topics",
    "delete_topics",
    "deleting_topics",
    "new_partitions",
    "resolve_topic",
]

USE_DEFAULT: Final = -1
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
_PARTITIONS_PER_PAUSE: Final = 100


class NewTopic(Struct, frozen=True):
    """A requested topic: counts, where -1 takes the default, or the replicas of each partition."""

    name: str
    partition_count: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    """``(partition, brokers)``, the leader first; a partition given twice is refused."""
    configs: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))


class CreatedTopic(Struct, frozen=True):
    """The answer's facts about a topic that was (or, with ``validate_only``, would have been) created."""

    name: str
    topic_id: Uuid
    partition_count: int
    replication_factor: int
    configs: Mapping[str, ConfigEntry]


class TopicRules(Struct, frozen=True, kw_only=True):
    """The rules that new topics must keep."""

    resolver: ConfigResolver
    default_partition_count: int = 1
    default_replication_factor: int = 1
    tiering_enabled: bool = True
    policy: Callable[[NewTopic], str | None] | None = None
    """Says why a topic is refused; clients get POLICY_VIOLATION."""


def creating_topics(
    image: ClusterImage,
    topics: Sequence[NewTopic],
    rules: TopicRules,
    *,
    new_topic_id: Callable[[], Uuid],
    next_int: NextInt,
    validate_only: bool = False,
    permit: Permit = no_limit,
) -> Steps[tuple[tuple[str, CreatedTopic | Failure], ...]]:
    """Create topics; one that fails does not stop the others. Also used for topics created on first use."""
    total = sum(len(topic.assignments) or max(1, _partition_count(topic, rules)) for topic in topics)
    counts = Counter(topic.name for topic in topics)
    taken: dict[str, str] = {}
    records: list[Message] = []
    results: list[tuple[str, CreatedTopic | Failure]] = []
    for name, topic in {each.name: each for each in topics}.items():
        try:
            if total > PARTITIONS_PER_REQUEST_MAX:
                why = "Excessively large number of partitions per request."
                raise KafkaError(ErrorCode.POLICY_VIOLATION, why)
            if counts[name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_name(image, name, taken)
            created, new_records = yield from _create(image, topic, rules, new_topic_id, next_int)
            permit(created.partition_count)
        except KafkaError as error:
            results.append((name, failure_of(error)))
        else:
            results.append((name, created))
            records.extend(new_records)
            key = collision_key(name)
            if key is not None:
                taken[key] = name
        yield
    return Decision(() if validate_only else tuple(records), tuple(results))


create_topics = at_once(creating_topics)


def _check_name(image: ClusterImage, name: str, taken: Mapping[str, str]) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    check_topic_name(name)
    if name in image.topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    key = collision_key(name)
    others = () if key is None else image.topics.by_collision_key.get(key, (taken[key],) if key in taken else ())
    if others:
        why = f"Topic '{name}' collides with existing topic: {others[0]}"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def _create(
    image: ClusterImage, topic: NewTopic, rules: TopicRules, new_topic_id: Callable[[], Uuid], next_int: NextInt
) -> Generator[None, None, tuple[CreatedTopic, list[Message]]]:
    configs = _checked_configs(topic, rules)
    brokers = image.brokers
    finding = _assigned(topic, brokers) if topic.assignments else _placed(topic, rules, brokers, next_int)
    replicas = yield from finding
    violation = rules.policy(topic) if rules.policy is not None else None
    if violation is not None:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, violation)
    topic_id = new_topic_id()
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    records += yield from _partition_records(brokers, topic_id, 0, replicas)
    entries = rules.resolver.resolve(configs)
    return CreatedTopic(topic.name, topic_id, len(replicas), len(replicas[0]), entries), records


def _checked_configs(topic: NewTopic, rules: TopicRules) -> dict[str, str]:
    missing = [name for name, value in topic.configs.items() if value is None]
    if missing:
        why = f"Null value not supported for topic configs: {','.join(missing)}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, why)
    configs = {name: value for name, value in topic.configs.items() if value is not None}
    try:
        validate_topic_configs(configs, rules.resolver, existing={}, tiering_enabled=rules.tiering_enabled)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return configs


def _placed(
    topic: NewTopic, rules: TopicRules, brokers: BrokersImage, next_int: NextInt
) -> Generator[None, None, list[tuple[int, ...]]]:
    if topic.replication_factor < USE_DEFAULT or topic.replication_factor == 0:
        why = "Replication factor must be larger than 0, or -1 to use the default value."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    if topic.partition_count < USE_DEFAULT or topic.partition_count == 0:
        why = "Number of partitions was set to an invalid non-positive value."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, why)
    count = _partition_count(topic, rules)
    factor = rules.default_replication_factor if topic.replication_factor == USE_DEFAULT else topic.replication_factor
    try:
        placed = yield from placing_replicas(_usable(brokers), count, factor, next_int)
        if not all(any(map(brokers.is_active, each)) for each in placed):
            why = "All brokers are currently fenced or in controlled shutdown."
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    except KafkaError as error:
        why = f"Unable to replicate the partition {factor} time(s): {error.message}"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why) from error
    return placed


def _partition_count(topic: NewTopic, rules: TopicRules) -> int:
    return rules.default_partition_count if topic.partition_count == USE_DEFAULT else topic.partition_count


def _usable(brokers: BrokersImage) -> list[BrokerImage]:
    """The brokers on which new replicas may be placed, fenced ones included: neither about to stop nor without room.

    One that has stopped is fenced, however it stopped; its registration says until its next start that it was about to.
    """
    known = brokers.brokers.values()
    return [broker for broker in known if broker.has_room and (broker.is_fenced or not broker.in_controlled_shutdown)]


def _assigned(topic: NewTopic, brokers: BrokersImage) -> Generator[None, None, list[tuple[int, ...]]]:
    """The replicas the caller asked for, by partition. Raises `KafkaError` with Kafka's texts."""
    for count, name in ((topic.replication_factor, "replication factor"), (topic.partition_count, "numPartitions")):
        if count != USE_DEFAULT:
            why = f"A manual partition assignment was specified, but {name} was not set to -1."
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    chosen: dict[int, tuple[int, ...]] = {}
    factor: int | None = None
    for partition, replicas in topic.assignments:
        if partition in chosen:
            why = f"Found multiple manual partition assignments for partition {partition}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        check_assignment(tuple(replicas), factor, brokers)
        factor = len(replicas)
        if not any(map(brokers.is_active, replicas)):
            why = (
                f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
                "controlled shutdown."
            )
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        chosen[partition] = tuple(replicas)
        if len(chosen) % _PARTITIONS_PER_PAUSE == 0:
            yield
    if set(chosen) != set(range(len(chosen))):
        why = "partitions should be a consecutive 0-based integer sequence"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    return [chosen[partition] for partition in range(len(chosen))]


def _partition_records(
    brokers: BrokersImage, topic_id: Uuid, first: int, replicas: Sequence[tuple[int, ...]]
) -> Generator[None, None, list[Message]]:
    """The records of the partitions from number ``first`` on, by their replicas; pauses every 100 of them."""
    records: list[Message] = []
    for number, each in enumerate(replicas, first):
        records.append(_new_partition(brokers, each).to_record(topic_id, number))
        if len(records) % _PARTITIONS_PER_PAUSE == 0:
            yield
    return records


def _new_partition(brokers: BrokersImage, replicas: tuple[int, ...]) -> PartitionImage:
    in_sync = tuple(filter(brokers.is_active, replicas))
    directories = tuple(brokers.brokers[broker].default_directory for broker in replicas)
    return PartitionImage(replicas, in_sync, leader=in_sync[0], directories=directories)


class NewPartitions(Struct, frozen=True):
    """The wanted number of partitions, and the replicas of the missing ones, or None."""

    topic: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None


def creating_partitions(
    image: ClusterImage,
    wanted: Sequence[NewPartitions],
    *,
    next_int: NextInt,
    validate_only: bool = False,
    permit: Permit = no_limit,
) -> Steps[tuple[tuple[str, Failure | None], ...]]:
    """Give topics more partitions; one that fails does not stop the others."""
    counts = Counter(each.topic for each in wanted)
    room = PARTITIONS_PER_REQUEST_MAX
    records: list[Message] = []
    results: list[tuple[str, Failure | None]] = []
    for name, each in {one.topic: one for one in wanted}.items():
        try:
            if counts[name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = image.topics.by_name.get(name)
            if topic is not None and each.total - len(topic.partitions) > room:
                why = "Excessively large number of partitions per request."
                raise KafkaError(ErrorCode.POLICY_VIOLATION, why)
            added = (yield from _more_partitions(image, name, each.total, each.assignments, next_int=next_int)).records
            permit(len(added))
        except KafkaError as error:
            results.append((name, failure_of(error)))
        else:
            results.append((name, None))
            records += added
            room -= len(added)
        yield
    return Decision(() if validate_only else tuple(records), tuple(results))


create_partitions = at_once(creating_partitions)


def _more_partitions(
    image: ClusterImage,
    name: str,
    total: int,
    assignments: Sequence[Sequence[int]] | None,
    *,
    next_int: NextInt,
) -> Steps[None]:
    """Give a topic more partitions, ``total`` in the end. Raises `KafkaError` with Kafka's texts."""
    topic = image.topics.by_name.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if total == present:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if total < present:
        why = f"The topic {name} currently has {present} partition(s); {total} would not be an increase."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, why)
    more = total - present
    if assignments is not None and len(assignments) != more:
        why = f"Attempted to add {more} additional partition(s), but only {len(assignments)} assignment(s) were specified."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    first = topic.partitions[0]  # while it moves, its replicas are the old and the new ones
    factor = len(set(first.replicas).difference(first.removing_replicas))
    if assignments is None:
        placed = yield from placing_replicas(_usable(image.brokers), more, factor, next_int)
        if not all(any(map(image.brokers.is_active, replicas)) for replicas in placed):
            why = (
                f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in controlled "
                "shutdown."
            )
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    else:
        placed = [tuple(each) for each in assignments]
        for number, replicas in enumerate(placed, present):
            check_assignment(replicas, factor, image.brokers)
            if not any(map(image.brokers.is_active, replicas)):
                why = (
                    f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
                    "controlled shutdown."
                )
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    records = yield from _partition_records(image.brokers, topic.topic_id, present, placed)
    return Decision(tuple(records), None)


new_partitions = at_once(_more_partitions)


def resolve_topic(image: ClusterImage, name: str | None, topic_id: Uuid) -> tuple[str, Uuid]:
    """Name and id of the topic that a deletion names by one of them.

    Raises `KafkaError`: INVALID_REQUEST for both or neither, UNKNOWN_TOPIC_ID or UNKNOWN_TOPIC_OR_PARTITION.
    """
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is not None:
        topic = image.topics.by_name.get(name)
        if topic is None:
            why = "This server does not host this topic-partition."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
        return name, topic.topic_id
    topic = image.topics.by_id.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return topic.name, topic_id


def deleting_topics(
    image: ClusterImage,
    targets: Sequence[tuple[str | None, Uuid]],
    *,
    enabled: bool = True,
    permit: Permit = no_limit,
) -> Steps[tuple[tuple[str | None, Uuid, Failure | None], ...]]:
    """Delete topics named by name or by id; the answer tells both of each that goes.

    A topic that is named twice, by name or id, gets one answer and stays. Raises `KafkaError`
    TOPIC_DELETION_DISABLED if ``delete.topic.enable`` is off.
    """
    if not enabled:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    results: list[tuple[str | None, Uuid, Failure | None]] = []
    deleted: list[Uuid] = []
    mentions = Counter(targets)
    ids = Counter(topic_id for name, topic_id in mentions if name is None)
    known = image.topics.by_name
    ids.update(known[name].topic_id for name, _ in mentions if name is not None and name in known)
    for name, topic_id in mentions:
        yield
        try:
            if mentions[name, topic_id] > 1 and (name is None) != (topic_id == ZERO_UUID):
                why = "Duplicate topic id." if name is None else "Duplicate topic name."
                raise KafkaError(ErrorCode.INVALID_REQUEST, why)
            found_name, found_id = resolve_topic(image, name, topic_id)
            if ids[found_id] > 1:
                if name is not None:
                    why = "The provided topic name maps to an ID that was already supplied."
                    results.append((name, found_id, Failure(ErrorCode.INVALID_REQUEST, why)))
                continue
            permit(len(image.topics.by_id[found_id].partitions))
        except KafkaError as error:
            results.append((name, topic_id, failure_of(error)))
        else:
            deleted.append(found_id)
            results.append((found_name, found_id, None))
    return Decision(tuple(RemoveTopicRecord(topic_id=each) for each in deleted), tuple(results))


delete_topics = at_once(deleting_topics)
