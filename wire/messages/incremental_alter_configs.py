"""IncrementalAlterConfigs (key 44): change single configs and leave the others as they are (KIP-339).

``resource_type`` as in DescribeConfigs. ``config_operation``: 0 set, 1 delete, 2 append, 3 subtract.

- 0: the whole of it. 1: flexible.
"""

from __future__ import annotations

from stratalog.wire.messages.alter_configs import AlterConfigsResourceResponse
from stratalog.wire.schema import Bool, Int8, Int32, Message, Struct, field

__all__ = [
    "AlterConfigsResource",
    "AlterableConfig",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
]


class AlterableConfig(Struct):
    """One change; a delete has no value."""

    name: str
    config_operation: Int8
    value: str | None


class AlterConfigsResource(Struct):
    """The changes to one resource: all of them are made or none."""

    resource_type: Int8
    resource_name: str
    configs: list[AlterableConfig]


class IncrementalAlterConfigsRequest(Message, api_key=44, versions=(0, 1), flexible=1):
    """The changes; with ``validate_only`` nothing is changed."""

    resources: list[AlterConfigsResource]
    validate_only: Bool


class IncrementalAlterConfigsResponse(Message, api_key=44, versions=(0, 1), flexible=1):
    """The outcome for each resource."""

    throttle_time_ms: Int32 = field()
    responses: list[AlterConfigsResourceResponse]
