"""AlterConfigs (key 33): replace all settings of a resource: what is not named goes back to its default.

The older form; IncrementalAlterConfigs (key 44) took its place. ``resource_type`` as in DescribeConfigs.

- 0: the whole of it. 1: throttling comes after the answer (KIP-219). 2: flexible.
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "AlterConfigsRequest",
    "AlterConfigsResource",
    "AlterConfigsResourceResponse",
    "AlterConfigsResponse",
    "AlterableConfig",
]


class AlterableConfig(Struct):
    """One setting and the value it is to have."""

    name: str
    value: str | None


class AlterConfigsResource(Struct):
    """Everything that one resource is to have set."""

    resource_type: Int8
    resource_name: str
    configs: list[AlterableConfig]


class AlterConfigsRequest(Message, api_key=33, versions=(0, 2), flexible=2):
    """The resources; with ``validate_only`` nothing is changed."""

    resources: list[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    """The outcome for one resource."""

    error_code: Int16 = field()
    error_message: str | None = field()
    resource_type: Int8
    resource_name: str


class AlterConfigsResponse(Message, api_key=33, versions=(0, 2), flexible=2):
    """The outcome for each resource."""

    throttle_time_ms: Int32 = field()
    responses: list[AlterConfigsResourceResponse]
