"""Which value of a setting holds, where it comes from, and what it would be otherwise.

Order: topic override, dynamic setting of this broker, dynamic default of the cluster, the broker's file, default.
DescribeConfigs calls this list for one setting its synonyms. Sources: KIP-226, KIP-569, Kafka's
``ConfigHelper``. One difference: where Kafka forgets ``log.retention.hours`` once ``log.retention.ms`` is unset,
the whole chain is listed here, so that the source shown is the true one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from stratalog.metadata.settings.by_name import (
    client_metrics_definitions,
    definitions,
    group_definitions,
    topic_definitions,
)
from stratalog.metadata.settings.catalogue.definition import ConfigDef, Synonym
from stratalog.metadata.settings.catalogue.types import ConfigValue, format_value

__all__ = [
    "NOTHING",
    "ConfigEntry",
    "ConfigResolver",
    "ConfigSource",
    "ConfigSynonym",
    "resolve_broker_config",
    "resolve_topic_config",
]

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigSynonym(Struct, frozen=True):
    """One place that gives a value; ``text`` is ``None`` where it is null or secret."""

    name: str
    text: str | None
    source: ConfigSource


class ConfigEntry(Struct, frozen=True):
    """The value of a setting that holds, with all that DescribeConfigs says about it."""

    definition: ConfigDef
    value: ConfigValue
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]
    is_read_only: bool = False

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.definition.name

    @property
    def text(self) -> str | None:
        """The text that a client sees: ``None`` for null and for anything secret."""
        return None if self.definition.is_sensitive else format_value(self.value)

    @property
    def is_hidden(self) -> bool:
        """Kafka lists its internal settings, topics' and brokers', only where they are set."""
        return self.definition.internal and self.is_default

    @property
    def is_default(self) -> bool:
        """Whether the setting was never set."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class _Found(Struct, frozen=True):
    value: ConfigValue
    synonym: ConfigSynonym


class ConfigResolver:
    """The settings of one level (topic or group) over the same broker settings; made once for each change of those.

    ``static`` is the broker's file, ``dynamic`` the broker's own dynamic settings, ``dynamic_default`` the cluster's.
    Raises `ConfigError` if one of them does not parse.
    """

    __slots__ = ("_base", "_definitions", "_source")

    def __init__(
        self,
        level: Mapping[str, ConfigDef],
        source: ConfigSource,
        static: Mapping[str, str] = NOTHING,
        dynamic: Mapping[str, str] = NOTHING,
        dynamic_default: Mapping[str, str] = NOTHING,
    ) -> None:
        layers = _layers(static, dynamic, dynamic_default)
        self._definitions = level
        self._source = source
        self._base = {name: _entry(row, list(_search(row, row.synonyms, layers))) for name, row in level.items()}

    @classmethod
    def for_topics(
        cls,
        static: Mapping[str, str] = NOTHING,
        dynamic: Mapping[str, str] = NOTHING,
        dynamic_default: Mapping[str, str] = NOTHING,
    ) -> ConfigResolver:
        """The resolver of topic settings."""
        return cls(topic_definitions(), ConfigSource.DYNAMIC_TOPIC_CONFIG, static, dynamic, dynamic_default)

    @classmethod
    def for_groups(
        cls,
        static: Mapping[str, str] = NOTHING,
        dynamic: Mapping[str, str] = NOTHING,
        dynamic_default: Mapping[str, str] = NOTHING,
    ) -> ConfigResolver:
        """The resolver of group settings."""
        return cls(group_definitions(), ConfigSource.DYNAMIC_GROUP_CONFIG, static, dynamic, dynamic_default)

    @classmethod
    def for_client_metrics(cls) -> ConfigResolver:
        """The resolver of client metrics subscriptions; no broker setting is a default of theirs."""
        return cls(client_metrics_definitions(), ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)

    def resolve(self, overrides: Mapping[str, str]) -> Mapping[str, ConfigEntry]:
        """Every setting of the level by name. Raises `ConfigError` for an override that does not parse.

        An override of a name that is not (any more) known is passed over: the log may hold what an older or newer
        version wrote.
        """
        if not overrides:
            return MappingProxyType(self._base)
        entries = dict(self._base)
        for name, text in overrides.items():
            row = self._definitions.get(name)
            if row is None:
                continue
            value = row.parse(text)
            mine = ConfigSynonym(name, None if row.is_sensitive else format_value(value), self._source)
            entries[name] = ConfigEntry(row, value, self._source, (mine, *entries[name].synonyms))
        return MappingProxyType(entries)


def resolve_topic_config(
    overrides: Mapping[str, str],
    static: Mapping[str, str] = NOTHING,
    dynamic: Mapping[str, str] = NOTHING,
    dynamic_default: Mapping[str, str] = NOTHING,
) -> Mapping[str, ConfigEntry]:
    """Every topic setting that holds for a topic with ``overrides``; see :class:`ConfigResolver` for many topics."""
    return ConfigResolver.for_topics(static, dynamic, dynamic_default).resolve(overrides)


def resolve_broker_config(
    static: Mapping[str, str] = NOTHING,
    dynamic: Mapping[str, str] = NOTHING,
    dynamic_default: Mapping[str, str] = NOTHING,
) -> Mapping[str, ConfigEntry]:
    """Every broker setting that holds. Raises `ConfigError` for a text that does not parse."""
    layers, rows = _layers(static, dynamic, dynamic_default), definitions()
    entries = dict(_unset_entries())
    for name in {name for _, texts in layers for name in texts} & rows.keys():
        entries[name] = _broker_entry(rows[name], layers)
    return MappingProxyType(entries)


_Layers = tuple[tuple[ConfigSource, Mapping[str, str]], ...]


def _layers(static: Mapping[str, str], dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]) -> _Layers:
    return (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, dynamic),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, dynamic_default),
        (ConfigSource.STATIC_BROKER_CONFIG, static),
    )


@cache
def _unset_entries() -> Mapping[str, ConfigEntry]:
    """Every broker setting where nothing is set: there are a thousand, and few are."""
    return MappingProxyType({name: _broker_entry(row, ()) for name, row in definitions().items()})


def _broker_entry(row: ConfigDef, layers: _Layers) -> ConfigEntry:
    return _entry(row, list(_search(row, (Synonym(row.name),), layers)), is_read_only=not row.is_dynamic)


def _search(row: ConfigDef, synonyms: tuple[Synonym, ...], layers: _Layers) -> Iterator[_Found]:
    """Every place that gives ``row`` a value, nearest first, the broker settings' own defaults last."""
    rows = definitions()
    for source, texts in layers:
        for synonym in synonyms:
            text = texts.get(synonym.name)
            if text is not None:
                yield _found(row, synonym, rows[synonym.name].parse(text), source)
    for synonym in synonyms:
        default = rows[synonym.name].default
        if default is not None:
            yield _found(row, synonym, default, ConfigSource.DEFAULT_CONFIG)


def _found(row: ConfigDef, synonym: Synonym, value: ConfigValue, source: ConfigSource) -> _Found:
    text = None if row.is_sensitive else format_value(value)
    return _Found(synonym.value_of(value), ConfigSynonym(synonym.name, text, source))


def _entry(row: ConfigDef, found: list[_Found], *, is_read_only: bool = False) -> ConfigEntry:
    synonyms = tuple(each.synonym for each in found)
    if not found:
        return ConfigEntry(row, row.default, ConfigSource.DEFAULT_CONFIG, synonyms, is_read_only)
    return ConfigEntry(row, found[0].value, found[0].synonym.source, synonyms, is_read_only)
