"""The rules that the settings of one group, or of one client metrics subscription, must keep, with Kafka's sentences.

Sources: Kafka's ``GroupConfig``, ``ClientMetricsConfigs``; KIP-714, KIP-848, KIP-932, KIP-1071.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from stratalog.metadata.settings.by_name import client_metrics_definitions, group_definitions
from stratalog.metadata.settings.catalogue.types import ConfigError, ConfigValue
from stratalog.metadata.settings.resolution import ConfigResolver
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["check_client_metrics", "check_group"]

_BOUNDED: Final = {
    "consumer": ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"),
    "share": (
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "assignment.interval.ms",
        "record.lock.duration.ms",
        "delivery.count.limit",
        "partition.max.record.locks",
    ),
    "streams": ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"),
}
"""Settings of each kind of group that the broker bounds by ``group.KIND.min.NAME`` and ``group.KIND.max.NAME``."""

_STANDBYS: Final = "streams.num.standby.replicas"
_STANDBYS_MAX: Final = "group.streams.max.standby.replicas"
_INTERVAL_MS_MIN: Final = 100
_INTERVAL_MS_MAX: Final = 3_600_000
_PATTERNS_OF: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def check_group(overrides: Mapping[str, str], resolver: ConfigResolver, broker: Mapping[str, ConfigValue]) -> None:
    """Raise `ConfigError` unless a group may have exactly ``overrides``; ``broker`` are the broker's settings."""
    for name in overrides:
        if name not in group_definitions():
            raise ConfigError(f"Unknown group config name: {name}")
    values = {name: entry.value for name, entry in resolver.resolve(overrides).items()}
    for kind, names in _BOUNDED.items():
        for name in names:
            _check_least(values, f"{kind}.{name}", broker, f"group.{kind}.min.{name}")
            _check_most(values, f"{kind}.{name}", broker, f"group.{kind}.max.{name}")
        if _number(values, f"{kind}.session.timeout.ms") <= _number(values, f"{kind}.heartbeat.interval.ms"):
            raise ConfigError(f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms")
    _check_most(values, _STANDBYS, broker, _STANDBYS_MAX)


def _check_least(values: Mapping[str, ConfigValue], name: str, broker: Mapping[str, ConfigValue], bound: str) -> None:
    if _number(values, name) < _number(broker, bound):
        raise ConfigError(f"{name} must be greater than or equal to {bound}")


def _check_most(values: Mapping[str, ConfigValue], name: str, broker: Mapping[str, ConfigValue], bound: str) -> None:
    if _number(values, name) > _number(broker, bound):
        raise ConfigError(f"{name} must be less than or equal to {bound}")


def _number(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), name
    return value


def check_client_metrics(overrides: Mapping[str, str]) -> None:
    """Raise `ConfigError`, or `KafkaError` INVALID_REQUEST, unless a subscription may have exactly ``overrides``."""
    known = client_metrics_definitions()
    for name, text in overrides.items():
        row = known.get(name)
        if row is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
        value = row.parse(text)
        if isinstance(value, int) and not _INTERVAL_MS_MIN <= value <= _INTERVAL_MS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {value} for {name}, interval must be between {_INTERVAL_MS_MIN} and {_INTERVAL_MS_MAX} "
                "(1 hour)",
            )
        if name == "match" and isinstance(value, tuple):
            for pattern in value:
                _check_pattern(pattern)


def _check_pattern(text: str) -> None:
    name, equals, pattern = text.partition("=")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(f"Illegal client matching pattern: {text}") from error
    if not equals or name.strip() not in _PATTERNS_OF or not pattern.strip():
        raise ConfigError(f"Illegal client matching pattern: {text}")
