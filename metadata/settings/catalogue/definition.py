"""The facts about one setting, and the small table language in which the groups write theirs down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from stratalog.metadata.settings.catalogue.types import ConfigError, ConfigType, ConfigValue, format_value, parse_value
from stratalog.metadata.settings.catalogue.validators import Validator

__all__ = [
    "BOOLEAN",
    "CLASS",
    "DOUBLE",
    "INT",
    "INT_MAX",
    "LIST",
    "LONG",
    "LONG_MAX",
    "PASSWORD",
    "PER_BROKER",
    "READ_ONLY",
    "SHORT",
    "STRING",
    "WIDE",
    "ConfigDef",
    "Synonym",
    "UpdateMode",
    "same",
    "setting",
    "table",
]

BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1


class UpdateMode(Enum):
    """Whether a broker setting can change while the broker runs; the names are Kafka's."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


READ_ONLY: Final = UpdateMode.READ_ONLY
PER_BROKER: Final = UpdateMode.PER_BROKER
WIDE: Final = UpdateMode.CLUSTER_WIDE


def same(value: int) -> int:
    """The conversion of a synonym in the same unit."""
    return value


class Synonym(Struct, frozen=True):
    """A broker setting that is the default of a topic's or a group's, and how its number is converted."""

    name: str
    convert: Callable[[int], int] = same

    def value_of(self, value: ConfigValue) -> ConfigValue:
        """``value`` in the unit of the setting this is a synonym of."""
        if self.convert is same or not isinstance(value, int):
            return value
        return self.convert(value)


class ConfigDef(Struct, frozen=True):
    """One setting: its type, its default, what it accepts, what it means here."""

    name: str
    type: ConfigType
    default: ConfigValue
    doc: str
    validator: Validator | None = None
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()
    why_not: str | None = None
    """One line that says why the setting has no effect here; ``None`` when it has one."""
    kafka_default: ConfigValue = None
    """Kafka's own default where ours differs, else ``None``."""
    internal: bool = False

    @property
    def has_effect(self) -> bool:
        """Whether anything changes when the setting does."""
        return self.why_not is None

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is never shown."""
        return self.type is ConfigType.PASSWORD

    @property
    def is_dynamic(self) -> bool:
        """Whether IncrementalAlterConfigs may change it on a broker."""
        return self.update_mode is not UpdateMode.READ_ONLY

    @property
    def default_text(self) -> str | None:
        """The default as Kafka prints it."""
        return format_value(self.default)

    @property
    def valid_values(self) -> str:
        """The text of the documentation's column "Valid Values"."""
        return "" if self.validator is None else str(self.validator)

    def parse(self, text: str) -> ConfigValue:
        """The typed value of ``text``. Raises `ConfigError` with Kafka's words."""
        value = parse_value(self.name, self.type, text)
        if self.validator is not None:
            self.validator(self.name, value)
        return value

    def read(self, text: str) -> ConfigValue:
        """The typed value of a committed ``text``; None if this release cannot read it: another one may have written it."""
        try:
            return self.parse(text)
        except ConfigError:
            return None


def setting(
    name: str,
    kind: ConfigType,
    default: ConfigValue,
    valid: Validator | None = None,
    *,
    doc: str,
    mode: UpdateMode = UpdateMode.READ_ONLY,
    unused: str | None = None,
    kafka: ConfigValue = None,
    synonyms: tuple[Synonym, ...] = (),
    internal: bool = False,
) -> ConfigDef:
    """One row of a group's table; ``unused`` says why it has no effect, ``kafka`` is Kafka's default if not ours."""
    return ConfigDef(name, kind, default, doc, valid, mode, synonyms, unused, kafka, internal)


def table(*groups: Iterable[ConfigDef]) -> Mapping[str, ConfigDef]:
    """The rows of all groups by name. Raises `ConfigError` if two rows share one or a default is not valid."""
    rows: dict[str, ConfigDef] = {}
    for group in groups:
        for row in group:
            if row.name in rows:
                raise ConfigError(f"Configuration {row.name} is defined twice.")
            if row.validator is not None and row.default is not None:
                row.validator(row.name, row.default)
            rows[row.name] = row
    return MappingProxyType(dict(sorted(rows.items())))
