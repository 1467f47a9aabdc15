"""DescribeConfigs (key 32): the configs of topics, brokers, broker loggers and groups.

``resource_type``: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group. ``config_source`` and ``source``:
1 the topic's own, 2 this broker's dynamic, 3 dynamic for all brokers, 4 the broker's file, 5 default,
6 broker logger, 7 client metrics, 8 group.

- 1: sources and synonyms. 2: throttling comes after the answer (KIP-219). 3: type and documentation (KIP-569).
- 4: flexible.
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "DescribeConfigsRequest",
    "DescribeConfigsResource",
    "DescribeConfigsResourceResult",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribeConfigsSynonym",
]


class DescribeConfigsResource(Struct):
    """One resource; null keys ask for all of its configs."""

    resource_type: Int8
    resource_name: str
    configuration_keys: list[str] | None = field([])


class DescribeConfigsRequest(Message, api_key=32, versions=(1, 4), flexible=4):
    """Which resources, and how much to tell about each config."""

    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = field()
    include_documentation: Bool = field(since=3)


class DescribeConfigsSynonym(Struct):
    """One place that gives a value for this config, the strongest first."""

    name: str
    value: str | None
    source: Int8


class DescribeConfigsResourceResult(Struct):
    """One config with its effective value, null where that is secret."""

    name: str
    value: str | None
    read_only: Bool
    config_source: Int8 = field(-1)
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: Int8 = field(since=3)
    documentation: str | None = field(since=3)


class DescribeConfigsResult(Struct):
    """One resource."""

    error_code: Int16 = field()
    error_message: str | None = field()
    resource_type: Int8
    resource_name: str
    configs: list[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Message, api_key=32, versions=(1, 4), flexible=4):
    """The configs, resource by resource."""

    throttle_time_ms: Int32 = field()
    results: list[DescribeConfigsResult]
