"""Topics through the client: create, delete, describe their settings and change them. Every refusal is a `KafkaError`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from stratalog.client.client import Client
from stratalog.client.commands import command
from stratalog.client.link import check, code_words
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from stratalog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from stratalog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = [
    "ConfigSource",
    "CreatedTopic",
    "TopicConfig",
    "add_partitions",
    "alter_topic_configs",
    "create_topic",
    "delete_topics",
    "delete_topics_one_by_one",
    "describe_topic_configs",
]

TIMEOUT_MS = 30_000
USE_DEFAULT = -1
_TOPIC_RESOURCE = 2
_BROKER_RESOURCE = 4
_DELETE_BY_NAME_OR_ID = 6


class ConfigSource(IntEnum):
    """Where the value of a setting comes from, as DescribeConfigs tells it (KIP-226)."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    FILE = 4
    DEFAULT = 5


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs on one setting (KIP-339)."""

    SET = 0
    DELETE = 1


class TopicConfig(NamedTuple):
    """One setting of a topic; `value` is None where it is hidden or null."""

    name: str
    value: str | None
    source: ConfigSource
    default: str | None = None
    """The value without any setting; None where the broker does not tell it."""

    @property
    def is_changed(self) -> bool:
        """Whether the topic has it set, or it holds another value than the default by a setting of brokers or the cluster."""
        if self.source is ConfigSource.TOPIC:
            return True
        return self.source is not ConfigSource.DEFAULT and (self.default is None or self.value != self.default)


class CreatedTopic(NamedTuple):
    """The partitions, replicas and id of a new topic; -1 where the broker does not say."""

    name: str
    topic_id: Uuid
    partition_count: int
    replication_factor: int


def create_topic(
    client: Client,
    name: str,
    *,
    partition_count: int = USE_DEFAULT,
    replication_factor: int = USE_DEFAULT,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> CreatedTopic:
    """Create a topic; -1 takes the broker's default. Raises `KafkaError`, TOPIC_ALREADY_EXISTS among others."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partition_count,
                replication_factor=replication_factor,
                assignments=[],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
            )
        ],
        timeout_ms=TIMEOUT_MS,
        validate_only=validate_only,
    )
    answer = command(client, request).topics[0]
    _check(name, answer.error_code, answer.error_message)
    return CreatedTopic(answer.name, answer.topic_id or ZERO_UUID, answer.num_partitions, answer.replication_factor)


def add_partitions(client: Client, name: str, total: int, *, validate_only: bool = False) -> None:
    """Give a topic more partitions, ``total`` in the end. Raises `KafkaError`, INVALID_PARTITIONS among others."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total, assignments=None)],
        timeout_ms=TIMEOUT_MS,
        validate_only=validate_only,
    )
    for answer in command(client, request).results:
        _check(name, answer.error_code, answer.error_message)


def delete_topics(client: Client, names: Sequence[str]) -> None:
    """Delete topics with all their records. Raises `KafkaError` of the first that was refused; others may be gone."""
    for error in delete_topics_one_by_one(client, names).values():
        raise error


def delete_topics_one_by_one(client: Client, names: Sequence[str]) -> dict[str, KafkaError]:
    """Delete topics with all their records. Returns why each one that was refused was; the others are gone. Raises `KafkaError`."""
    if client.version_of(DeleteTopicsRequest) >= _DELETE_BY_NAME_OR_ID:
        states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
        request = DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)
    else:
        request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=TIMEOUT_MS)
    refused: dict[str, KafkaError] = {}
    for answer in command(client, request).responses:
        try:
            _check(answer.name or "", answer.error_code, answer.error_message)
        except KafkaError as error:
            refused[answer.name or ""] = error
    return refused


def describe_topic_configs(
    client: Client, names: Iterable[str], keys: Sequence[str] | None = None, *, skip_missing: bool = False
) -> dict[str, list[TopicConfig]]:
    """All settings of each topic, or those of ``keys``, in the order the broker tells them.

    Raises `KafkaError`, for a topic that is not there as well, unless ``skip_missing``: it may have been deleted meanwhile.
    """
    asked = None if keys is None else list(keys)
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=asked)
            for name in names
        ],
        include_synonyms=True,
    )
    found: dict[str, list[TopicConfig]] = {}
    for answer in client.call(request).results:
        if skip_missing and answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        _check(answer.resource_name, answer.error_code, answer.error_message)
        found[answer.resource_name] = [
            TopicConfig(one.name, one.value, _source(one.config_source), _default(one)) for one in answer.configs
        ]
    return found


def describe_broker_configs(client: Client, node_id: int, names: Sequence[str]) -> dict[str, str | None]:
    """The values of settings of a broker; a setting that the broker does not know is missing. Raises `KafkaError`."""
    resource = DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=list(names)
    )
    (answer,) = client.call(DescribeConfigsRequest(resources=[resource]), node_id).results
    _check(answer.resource_name, answer.error_code, answer.error_message)
    return {one.name: one.value for one in answer.configs}


def _default(config: DescribeConfigsResourceResult) -> str | None:
    return next((one.value for one in config.synonyms if one.source == ConfigSource.DEFAULT), None)


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in ConfigSource.__members__.values() else ConfigSource.UNKNOWN


def alter_topic_configs(
    client: Client, name: str, *, set_to: Mapping[str, str], delete: Iterable[str] = (), validate_only: bool = False
) -> None:
    """Set some settings of a topic and give others back to their defaults. Raises `KafkaError`: then none is changed."""
    changes = [
        AlterableConfig(name=key, config_operation=ConfigOperation.SET, value=value) for key, value in set_to.items()
    ]
    changes += [AlterableConfig(name=key, config_operation=ConfigOperation.DELETE, value=None) for key in delete]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configs=changes)],
        validate_only=validate_only,
    )
    for answer in command(client, request).responses:
        _check(name, answer.error_code, answer.error_message)


def _check(topic: str, code: int, message: str | None) -> None:
    check(code, f"topic {topic}: {message or code_words(code)}")
