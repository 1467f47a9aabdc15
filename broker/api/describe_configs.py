"""DescribeConfigs (key 32): the settings that hold, where they come from, and what they would be otherwise.

Behaviour: topics, this broker, the cluster-wide default of all brokers (a broker resource without a name), groups and
client metrics subscriptions whether or not there are any, and the loggers of this process with their levels. Secrets
are null. Version 3 adds types and documentation (KIP-569).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.authorizer import CLUSTER_NAME, Operation, ResourceType
from stratalog.broker.requests.dispatch import Api, Pending
from stratalog.broker.runtime.log_levels import levels
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.image import configs_image
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource, broker_id_of
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topic_names import check_topic_name
from stratalog.metadata.settings.catalogue.definition import STRING, ConfigDef
from stratalog.metadata.settings.configs import ConfigEntry, ConfigResolver, ConfigSource, resolve_broker_config
from stratalog.metadata.settings.listener_settings import resolve_listener_settings
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from stratalog.wire.schema import Message

__all__ = ["ALTERED", "ALTERED_LOGGERS", "API", "check_broker_name"]

_ADVERTISED: Final = "advertised.listeners"
"""The setting that, if not given, is described by the addresses that clients get, which come from the listeners."""


def _topic(context: Context, image: ClusterImage, name: str) -> Mapping[str, ConfigEntry]:
    broker = context.broker
    if not context.allows(name, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    check_topic_name(name)
    if name not in image.topics.by_name:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return broker.topic_rules().resolver.committed(image.topic_configs(name))


class _Words(NamedTuple):
    """Kafka's words for a broker's name, which differ from place to place."""

    no_number: str
    another: str


DESCRIBED: Final = _Words(
    "Broker id must be an integer, but it is: {name}",
    "Unexpected broker id, expected {node_id} or empty string, but received {name}",
)
DESCRIBED_LOGGERS: Final = _Words(DESCRIBED.no_number, "Unexpected broker id, expected {node_id} but received {name}")
ALTERED: Final = _Words(
    "Node id must be an integer, but it is: {name}", "Unexpected broker id, expected {node_id}, but received {name}"
)
ALTERED_LOGGERS: Final = _Words(ALTERED.no_number, "Unexpected node id. Expected {node_id}, but received {name}")


def check_broker_name(name: str, node_id: int, words: _Words) -> None:
    """Raise `KafkaError` INVALID_REQUEST unless ``name`` is the id of this broker."""
    number = broker_id_of(name)
    if number != node_id:
        why = words.no_number if number is None else words.another
        raise KafkaError(ErrorCode.INVALID_REQUEST, why.format(name=name, node_id=node_id))


def _broker(context: Context, image: ClusterImage, name: str) -> Mapping[str, ConfigEntry]:
    broker = context.broker
    if not context.allows(CLUSTER_NAME, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    defaults = image.configs.of(CLUSTER_DEFAULT)
    if not name:
        entries = resolve_broker_config({}, {}, defaults)
        everyones = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        found = {key: entry for key, entry in entries.items() if entry.source is everyones}
        found |= resolve_listener_settings(((everyones, defaults),), {})
        return {key: _only_of(everyones, entry) for key, entry in found.items()}
    check_broker_name(name, broker.node_id, DESCRIBED)
    mine = image.configs.of(ConfigResource.broker(broker.node_id))
    given = (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, mine),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, defaults),
        (ConfigSource.STATIC_BROKER_CONFIG, broker.config.static),
    )
    entries = resolve_broker_config(broker.config.static, mine, defaults)
    entries = {**entries, **resolve_listener_settings(given, entries)}
    advertised, registered = entries[_ADVERTISED], image.brokers.brokers.get(broker.node_id)
    # A node that is only a controller has no clients' addresses, nor has a broker that was unregistered: null, as in Kafka.
    if advertised.value is not None or registered is None:
        return entries
    told = tuple(f"{listener}://{at.host}:{at.port}" for listener, at in registered.listeners.items())
    return {**entries, _ADVERTISED: replace(advertised, value=told, source=entries["listeners"].source)}


def _only_of(source: ConfigSource, entry: ConfigEntry) -> ConfigEntry:
    """The entry with the values of one source: a setting of all brokers has no default, which is one broker's (``ConfigHelper``)."""
    return replace(entry, synonyms=tuple(one for one in entry.synonyms if one.source is source))


def _group(context: Context, image: ClusterImage, name: str) -> Mapping[str, ConfigEntry]:
    broker = context.broker
    if not context.allows(name, Operation.DESCRIBE_CONFIGS, ResourceType.GROUP):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    configs = image.configs
    mine = configs.of(ConfigResource.broker(broker.node_id))
    resolver = ConfigResolver.for_groups(broker.config.static, mine, configs.of(CLUSTER_DEFAULT))
    return resolver.committed(configs.of(ConfigResource(configs_image.ResourceType.GROUP, name)))


def _client_metrics(context: Context, image: ClusterImage, name: str) -> Mapping[str, ConfigEntry]:
    if not context.allows(CLUSTER_NAME, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    resource = ConfigResource(configs_image.ResourceType.CLIENT_METRICS, name)
    return ConfigResolver.for_client_metrics().committed(image.configs.of(resource))


def _loggers(context: Context, _image: ClusterImage, name: str) -> Mapping[str, ConfigEntry]:
    if not context.allows(CLUSTER_NAME, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    check_broker_name(name, context.broker.node_id, DESCRIBED_LOGGERS)
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return {
        logger: ConfigEntry(ConfigDef(logger, STRING, None, "The level of a logger."), level, source, ())
        for logger, level in levels().items()
    }


def _row(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    row = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.text,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.definition.is_sensitive,
        synonyms=[],
        config_type=entry.definition.type,
    )
    if request.include_synonyms:
        row.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.text, source=synonym.source)
            for synonym in entry.synonyms
        ]
    if request.include_documentation:
        row.documentation = entry.definition.doc
    return row


_BY_TYPE: Mapping[int, Any] = {
    configs_image.ResourceType.TOPIC: _topic,
    configs_image.ResourceType.BROKER: _broker,
    configs_image.ResourceType.BROKER_LOGGER: _loggers,
    configs_image.ResourceType.CLIENT_METRICS: _client_metrics,
    configs_image.ResourceType.GROUP: _group,
}


def _describe(
    context: Context, image: ClusterImage, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, configs=[]
    )
    resolve = _BY_TYPE.get(resource.resource_type)
    try:
        if resolve is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no settings on this broker"
            )
        entries = resolve(context, image, resource.resource_name)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    keys = None if resource.configuration_keys is None else set(resource.configuration_keys)
    result.configs = [
        _row(entry, request)
        for name, entry in sorted(entries.items())
        if not entry.is_hidden and (not keys or name in keys)
    ]
    return result


def handle(context: Context, request: DescribeConfigsRequest) -> Pending:
    """Resource by resource; one that is named again for the same keys is
    answered once, or a small frame would ask much.
    """
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: DescribeConfigsRequest) -> Steps[Message]:
    asked = {
        (one.resource_type, one.resource_name, tuple(one.configuration_keys or ())): one for one in request.resources
    }
    results = context.rows("results")
    image = context.broker.image
    for resource in asked.values():
        yield from results.add(_describe(context, image, request, resource))
    return DescribeConfigsResponse(results=results.close())


def _failure(request: DescribeConfigsRequest, _version: int, error: KafkaError) -> Message:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=error.code,
                error_message=error.message,
                configs=[],
            )
            for resource in request.resources
        ]
    )


API = Api(
    key=32,
    versions=(1, 4),
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
    handle=handle,
    operation=Operation.DESCRIBE_CONFIGS,
    resource=ResourceType.TOPIC,
    failure=_failure,
)
