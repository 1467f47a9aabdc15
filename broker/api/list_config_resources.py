"""ListConfigResources (key 74): names of everything that can have settings (KIP-1142).

Behaviour: topics and brokers are those that exist; groups and client metrics those that have settings. Version 0 asks
for client metrics only. A type that does not exist fails the whole request with UNSUPPORTED_VERSION, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.metadata.image.configs_image import ResourceType as ConfigType
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

_TYPES_SINCE: Final = 1


def _topics(image: ClusterImage) -> Iterable[str]:
    return image.topics.by_name


def _brokers(image: ClusterImage) -> Iterable[str]:
    return map(str, image.brokers.brokers)


def _with_settings(kind: ConfigType) -> Callable[[ClusterImage], Iterable[str]]:
    return lambda image: (resource.name for resource in image.configs.by_resource if resource.type == kind)


_NAMES: Final[Mapping[int, Callable[[ClusterImage], Iterable[str]]]] = {
    ConfigType.TOPIC: _topics,
    ConfigType.BROKER: _brokers,
    ConfigType.BROKER_LOGGER: _brokers,
    ConfigType.CLIENT_METRICS: _with_settings(ConfigType.CLIENT_METRICS),
    ConfigType.GROUP: _with_settings(ConfigType.GROUP),
}


def handle(context: Context, request: ListConfigResourcesRequest) -> Message:
    """Answered from the image."""
    if context.api_version < _TYPES_SINCE:
        wanted = [int(ConfigType.CLIENT_METRICS)]
    else:
        wanted = sorted(set(request.resource_types)) or sorted(_NAMES)
    unknown = [kind for kind in wanted if kind not in _NAMES]
    if unknown:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    image = context.broker.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in wanted
            for name in sorted(_NAMES[kind](image))
        ]
    )


API = Api(
    key=74,
    versions=(0, 1),
    request=ListConfigResourcesRequest,
    response=ListConfigResourcesResponse,
    handle=handle,
    operation=Operation.DESCRIBE_CONFIGS,
    resource=ResourceType.CLUSTER,
)
