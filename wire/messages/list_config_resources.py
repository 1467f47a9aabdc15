"""ListConfigResources (key 74): names of everything that can have settings (KIP-1000, KIP-1142).

``resource_type`` as in DescribeConfigs.

- 0: the resources of client metrics only. 1: of the types asked for, all types if none is named.
"""

from __future__ import annotations

from stratalog.wire.schema import Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "ConfigResource",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
]


class ListConfigResourcesRequest(Message, api_key=74, versions=(0, 1), flexible=0):
    """Which types."""

    resource_types: list[Int8] = field(since=1)


class ConfigResource(Struct):
    """One resource."""

    resource_name: str
    resource_type: Int8 = field(16, since=1)


class ListConfigResourcesResponse(Message, api_key=74, versions=(0, 1), flexible=0):
    """The resources."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    config_resources: list[ConfigResource]
