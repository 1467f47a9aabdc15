"""The rules of min.insync.replicas where the cluster keeps eligible leader replicas (KIP-966).

An eligible replica has all that was acknowledged only while the minimum stands under which it left the in-sync set: a
change of the minimum forgets all eligible replicas in the same atomic batch. One minimum holds for all brokers.
Source: Kafka's ``ConfigurationControlManager``.

On purpose otherwise than there: where no replica is in sync, those that may lead stay. Without a leader no mark moves, and a
former one that goes on has not heard of the new minimum either. In Kafka such a partition waits for an unclean election,
also if all of its replicas come back with everything.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from typing import Final

from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ResourceType
from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.features import has_eligible_leader_replicas
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.settings.resolution import ConfigResolver
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import ClearElrRecord, ConfigRecord, PartitionChangeRecord
from stratalog.wire.schema import Message

__all__ = [
    "check_minimum",
    "forgetting_eligible",
    "keeping_of_empty_sets",
    "minimum_of_file",
    "one_minimum_records",
    "without_eligible",
]

_NAME: Final = "min.insync.replicas"


def check_minimum(image: ClusterImage, records: Iterable[Message]) -> None:
    """Check new settings of one resource.

    Raises `KafkaError` INVALID_CONFIG for a minimum of one broker, or the removal of that of all.
    """
    if not has_eligible_leader_replicas(image.features):
        return
    for record in records:
        if isinstance(record, ConfigRecord) and record.name == _NAME and record.resource_type == ResourceType.BROKER:
            if record.resource_name:
                why = f"Broker-level {_NAME} cannot be altered while ELR is enabled."
                raise KafkaError(ErrorCode.INVALID_CONFIG, why)
            if record.value is None:
                why = f"Cluster-level {_NAME} cannot be removed while ELR is enabled."
                raise KafkaError(ErrorCode.INVALID_CONFIG, why)


def forgetting_eligible(image: ClusterImage, records: Iterable[Message]) -> Generator[None, None, list[Message]]:
    """The records, and behind them those that forget the eligible replicas under another minimum."""
    all_records = list(records)
    if not has_eligible_leader_replicas(image.features):
        return all_records
    changed = [one for one in all_records if isinstance(one, ConfigRecord) and one.name == _NAME]
    for record in changed:
        is_topic = record.resource_type == ResourceType.TOPIC
        all_records.append(ClearElrRecord(topic_name=record.resource_name if is_topic else ""))
    names = {one.topic_name for one in all_records if isinstance(one, ClearElrRecord)}
    return all_records + (yield from keeping_of_empty_sets(image, names))


without_eligible = at_once(forgetting_eligible)


def keeping_of_empty_sets(image: ClusterImage, names: Collection[str]) -> Generator[None, None, list[Message]]:
    """The records that follow `ClearElrRecord` of these names: those that may lead an empty in-sync set are named again."""
    topics = image.topics.by_name
    records: list[Message] = []
    for name in topics if "" in names else names:
        yield
        for number, state in topics[name].partitions.items() if name in topics else ():
            if not state.in_sync_replicas and (state.eligible_leader_replicas or state.last_known_eligible):
                records.append(
                    PartitionChangeRecord(
                        topic_id=topics[name].topic_id,
                        partition_id=number,
                        eligible_leader_replicas=list(state.eligible_leader_replicas),
                        last_known_elr=list(state.last_known_eligible),
                    )
                )
    return records


def minimum_of_file(static: Mapping[str, str]) -> int:
    """The minimum that the texts of a node's file set, or the default."""
    value = ConfigResolver.for_topics(static).resolve({})[_NAME].value
    assert isinstance(value, int), value
    return value


def one_minimum_records(image: ClusterImage, default: int) -> list[Message]:
    """The records that make eligible replicas safe to begin with: a minimum of the cluster, and none of a broker.

    A broker that is not registered has none either: it would come back with it. ``default`` is the minimum of the
    controller's file.
    """
    records: list[Message] = []
    if _NAME not in image.configs.of(CLUSTER_DEFAULT):
        records.append(
            ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=_NAME, value=str(default))
        )
    # Each controller that becomes active looks: tens of thousands of topics may have settings, and are not sorted.
    brokers = sorted(one for one in image.configs.by_resource if one.type == ResourceType.BROKER and one.name)
    return records + [
        ConfigRecord(resource_type=one.type, resource_name=one.name, name=_NAME, value=None)
        for one in brokers
        if _NAME in image.configs.of(one)
    ]
