"""The rules of min.insync.replicas where the cluster keeps eligible leader replicas (KIP-966).

An eligible replica has all that was acknowledged only while the minimum stands under which it left the in-sync set: a
change of the minimum forgets all eligible replicas in the same atomic batch. One minimum holds for all brokers.
Source: Kafka's ``ConfigurationControlManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource, ResourceType
from stratalog.metadata.image.features import has_eligible_leader_replicas
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.settings.resolution import ConfigResolver
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import ClearElrRecord, ConfigRecord
from stratalog.wire.schema import Message

__all__ = ["check_minimum", "minimum_of_file", "one_minimum_records", "without_eligible"]

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


def without_eligible(image: ClusterImage, records: Iterable[Message]) -> list[Message]:
    """The records, and behind them those that forget the eligible replicas under another minimum."""
    all_records = list(records)
    if not has_eligible_leader_replicas(image.features):
        return all_records
    changed = [one for one in all_records if isinstance(one, ConfigRecord) and one.name == _NAME]
    for record in changed:
        is_topic = record.resource_type == ResourceType.TOPIC
        all_records.append(ClearElrRecord(topic_name=record.resource_name if is_topic else ""))
    return all_records


def minimum_of_file(static: Mapping[str, str]) -> int:
    """The minimum that the texts of a node's file set, or the default."""
    value = ConfigResolver.for_topics(static).resolve({})[_NAME].value
    assert isinstance(value, int), value
    return value


def one_minimum_records(image: ClusterImage, default: int) -> list[Message]:
    """The records that make eligible replicas safe to begin with: a minimum of the cluster, and none of a broker.

    ``default`` is the minimum of the controller's file.
    """
    records: list[Message] = []
    if _NAME not in image.configs.of(CLUSTER_DEFAULT):
        records.append(
            ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=_NAME, value=str(default))
        )
    for broker_id in sorted(image.brokers.brokers):
        resource = ConfigResource.broker(broker_id)
        if _NAME in image.configs.of(resource):
            records.append(
                ConfigRecord(resource_type=ResourceType.BROKER, resource_name=resource.name, name=_NAME, value=None)
            )
    return records
