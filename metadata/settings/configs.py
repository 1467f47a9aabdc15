"""The settings, for the other rooms: what is known, what holds, what is refused. One import for all of it."""

from __future__ import annotations

from stratalog.metadata.settings.broker_rules import broker_problems
from stratalog.metadata.settings.by_name import (
    client_metrics_definitions,
    definitions,
    describe_unknown,
    group_definitions,
    topic_definitions,
)
from stratalog.metadata.settings.catalogue.definition import ConfigDef, UpdateMode
from stratalog.metadata.settings.catalogue.types import ConfigError, ConfigType, ConfigValue, Password, format_value
from stratalog.metadata.settings.resolution import (
    ConfigEntry,
    ConfigResolver,
    ConfigSource,
    ConfigSynonym,
    resolve_broker_config,
    resolve_topic_config,
    unreadable_settings,
)
from stratalog.metadata.settings.topic_rules import validate_topic_configs

__all__ = [
    "ConfigDef",
    "ConfigEntry",
    "ConfigError",
    "ConfigResolver",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConfigValue",
    "Password",
    "UpdateMode",
    "broker_problems",
    "client_metrics_definitions",
    "definitions",
    "describe_unknown",
    "format_value",
    "group_definitions",
    "resolve_broker_config",
    "resolve_topic_config",
    "topic_definitions",
    "unreadable_settings",
    "validate_topic_configs",
]
