"""The records with which a restored cluster begins: metadata of topics and settings, committed offsets of groups. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from stratalog.metadata.groups.offsets.records import NEVER, CommittedOffset, offset_key, pack_offset
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource
from stratalog.metadata.image.features import bootstrap_records
from stratalog.metadata.image.image import INCARNATION
from stratalog.metadata.image.topic_names import CONSUMER_OFFSETS_TOPIC
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.metadata.settings.catalogue.types import ConfigError
from stratalog.metadata.settings.configs import ConfigResolver, topic_definitions
from stratalog.tier.messages.group_copy import GroupCopy
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.partitioner import coordinator_partition
from stratalog.wire.records.metadata import ConfigRecord, ProducerIdsRecord, TopicRecord
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = [
    "OFFSETS_CONFIGS",
    "OFFSETS_PARTITIONS",
    "OFFSETS_TOPIC",
    "ClampedOffset",
    "Range",
    "RestoredTopic",
    "batches_of",
    "committed_offsets",
    "metadata_records",
    "usable_configs",
]

OFFSETS_TOPIC: Final = CONSUMER_OFFSETS_TOPIC
OFFSETS_PARTITIONS: Final = 50
"""``offsets.topic.num.partitions`` as it is by default; a restored cluster keeps it."""
OFFSETS_CONFIGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}
_RECORDS_PER_BATCH: Final = 1000
_PRODUCER_IDS_PER_BLOCK: Final = 1000


class RestoredTopic(NamedTuple):
    """A topic to be made: one leader epoch for each of its partitions, above that of any leader it had."""

    name: str
    topic_id: Uuid
    configs: Mapping[str, str]
    leader_epochs: Sequence[int]


class Range(NamedTuple):
    """The readable range of a restored partition, ``[start, end)``, and
    the id of the topic of that name it belongs to.
    """

    topic_id: Uuid
    start: int
    end: int


class ClampedOffset(NamedTuple):
    """A committed offset that does not fit what was restored. ``restored`` is -1 if its partition is not there."""

    group: str
    topic: str
    partition: int
    committed: int
    restored: int


def usable_configs(configs: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings of a topic that this release knows, and a sentence for each that it does not take."""
    known: dict[str, str] = {}
    problems: list[str] = []
    for name, value in configs.items():
        try:
            if name not in topic_definitions():
                raise ConfigError("it is not known")
            ConfigResolver.for_topics().resolve({name: value})
        except ConfigError as error:
            problems.append(f"{name}={value} is left out: {error}")
        else:
            known[name] = value
    return known, problems


def metadata_records(
    topics: Iterable[RestoredTopic], *, node_id: int, directory_id: Uuid, incarnation: int, next_producer_id: int
) -> Iterator[Message]:
    """The records that make the image of the restored cluster, all led by one broker."""
    yield from bootstrap_records()
    yield _config(CLUSTER_DEFAULT, INCARNATION, str(incarnation))
    for topic in topics:
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for name, value in sorted(topic.configs.items()):
            yield _config(ConfigResource.topic(topic.name), name, value)
        for number, epoch in enumerate(topic.leader_epochs):
            state = PartitionImage(
                replicas=(node_id,),
                in_sync_replicas=(node_id,),
                leader=node_id,
                leader_epoch=epoch,
                partition_epoch=0,
                directories=(directory_id,),
            )
            yield state.to_record(topic.topic_id, number)
    if next_producer_id:
        block = _PRODUCER_IDS_PER_BLOCK
        yield ProducerIdsRecord(broker_id=-1, next_producer_id=-(-next_producer_id // block) * block)


def _config(resource: ConfigResource, name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def batches_of(rows: Sequence[tuple[bytes | None, bytes]], now_ms: int) -> Iterator[bytearray]:
    """Keys and values as batches; the log they are appended to gives them their offsets."""
    for start in range(0, len(rows), _RECORDS_PER_BATCH):
        chunk = rows[start : start + _RECORDS_PER_BATCH]
        yield build_batch([Record(at, now_ms, key, value) for at, (key, value) in enumerate(chunk)])


def committed_offsets(
    groups: Iterable[GroupCopy], ranges: Mapping[TopicPartition, Range], *, now_ms: int
) -> tuple[dict[int, list[tuple[bytes | None, bytes]]], list[ClampedOffset]]:
    """The records of each partition of the offsets topic, and the offsets that had to be changed or left out.

    An offset beyond what was restored goes to its end, one below to its start. Commits count as of ``now_ms``, so that
    they do not expire for having been away.
    """
    rows: dict[int, list[tuple[bytes | None, bytes]]] = {}
    clamped: list[ClampedOffset] = []
    for group in groups:
        for one in group.offsets:
            known = ranges.get(TopicPartition(one.topic, one.partition))
            if known is None or known.topic_id != one.topic_id:
                clamped.append(ClampedOffset(group.group, one.topic, one.partition, one.offset, -1))
                continue
            offset = min(max(one.offset, known.start), known.end)
            if offset != one.offset:
                clamped.append(ClampedOffset(group.group, one.topic, one.partition, one.offset, offset))
            epoch = one.leader_epoch if offset == one.offset else -1
            value = pack_offset(CommittedOffset(offset, epoch, one.metadata, now_ms, NEVER, one.topic_id))
            number = coordinator_partition(group.group, OFFSETS_PARTITIONS)
            rows.setdefault(number, []).append((offset_key(group.group, one.topic, one.partition), value))
    return rows, clamped
