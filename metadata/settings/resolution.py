"""Which value of a setting holds, where it comes from, and what it would be otherwise.

Order: topic override, dynamic setting of this broker, dynamic default of the cluster, the broker's file, default.
DescribeConfigs calls this list for one setting its synonyms. Sources: KIP-226, KIP-569, Kafka's
``ConfigHelper``. One difference: where Kafka forgets ``log.retention.hours`` once ``log.retention.ms`` is unset,
the whole chain is listed here, so that the source shown is the true one.

A committed text that this release cannot read is passed over, and the next place's value holds: another release may have
written it, and a node that ended over it would end at each start. `unreadable_settings` names such texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from stratalog.metadata.settings.by_name import (
    client_metrics_definitions,
    definitions,
    group_definitions,
    topic_definitions,
)
from stratalog.metadata.settings.catalogue.definition import ConfigDef, Synonym
from stratalog.metadata.settings.catalogue.types import HIDDEN, ConfigError, ConfigValue, format_value

__all__ = [
    "NOTHING",
    "ConfigEntry",
    "ConfigResolver",
    "ConfigSource",
    "ConfigSynonym",
    "resolve_broker_config",
    "resolve_topic_config",
    "unreadable_settings",
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
    is_unreadable: bool = False
    """Whether a nearer place has a text for it that this release cannot read."""

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
        self._base = {name: _entry(row, row.synonyms, layers) for name, row in level.items()}

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
        """Every setting of the level by name, with the overrides of a request.

        Raises `ConfigError` for an override that does not parse. One of a name that is not known is passed over.
        """
        return self._over(overrides, ConfigDef.parse)

    def committed(self, overrides: Mapping[str, str]) -> Mapping[str, ConfigEntry]:
        """The same with overrides of the metadata log, which may be those of an older or newer release.

        One that cannot be read is passed over, as one of a name that is not known.
        """
        return self._over(overrides, ConfigDef.read)

    def _over(
        self, overrides: Mapping[str, str], read: Callable[[ConfigDef, str], ConfigValue]
    ) -> Mapping[str, ConfigEntry]:
        if not overrides:
            return MappingProxyType(self._base)
        entries = dict(self._base)
        for name, text in overrides.items():
            row = self._definitions.get(name)
            if row is None:
                continue
            value = read(row, text)
            if value is None:
                entries[name] = replace(entries[name], is_unreadable=True)
                continue
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
    """Every broker setting that holds."""
    layers, rows = _layers(static, dynamic, dynamic_default), definitions()
    entries = dict(_unset_entries())
    for name in {name for _, texts in layers for name in texts} & rows.keys():
        entries[name] = _broker_entry(rows[name], layers)
    return MappingProxyType(entries)


def unreadable_settings(overrides: Mapping[str, str], level: Mapping[str, ConfigDef]) -> list[str]:
    """Kafka's sentence for each committed text of a known setting that this release cannot read; secrets are not shown."""
    problems = []
    for name, text in sorted(overrides.items()):
        row = level.get(name)
        if row is None:
            continue
        try:
            row.parse(text)
        except ConfigError as error:
            problems.append(f"Invalid value {HIDDEN} for configuration {name}" if row.is_sensitive else str(error))
    return problems


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
    return _entry(row, (Synonym(row.name),), layers, is_read_only=not row.is_dynamic)


def _entry(
    row: ConfigDef, synonyms: tuple[Synonym, ...], layers: _Layers, *, is_read_only: bool = False
) -> ConfigEntry:
    """The nearest value of ``row`` with all others behind it, the broker settings' own defaults last."""
    rows = definitions()
    found: list[_Found] = []
    is_unreadable = False
    for source, texts in layers:
        for synonym in synonyms:
            text = texts.get(synonym.name)
            if text is None:
                continue
            value = rows[synonym.name].read(text)
            if value is not None:
                found.append(_found(row, synonym, value, source))
            elif not found:
                is_unreadable = True
    for synonym in synonyms:
        default = rows[synonym.name].default
        if default is not None:
            found.append(_found(row, synonym, default, ConfigSource.DEFAULT_CONFIG))
    shown = tuple(each.synonym for each in found)
    value, holds = (found[0].value, shown[0].source) if found else (row.default, ConfigSource.DEFAULT_CONFIG)
    return ConfigEntry(row, value, holds, shown, is_read_only, is_unreadable)


def _found(row: ConfigDef, synonym: Synonym, value: ConfigValue, source: ConfigSource) -> _Found:
    text = None if row.is_sensitive else format_value(value)
    return _Found(synonym.value_of(value), ConfigSynonym(synonym.name, text, source))
