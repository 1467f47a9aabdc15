"""Types of settings: text to value and back, with the words Kafka uses when a text does not fit.

Source of types and texts: Apache Kafka's ``ConfigDef.parseType`` and ``ConfigException``. The numbers of
:class:`ConfigType` are those DescribeConfigs answers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import IntEnum
from typing import Final

from msgspec import Struct

from stratalog.wire.errors import Invalid

__all__ = ["HIDDEN", "ConfigError", "ConfigType", "ConfigValue", "Password", "format_value", "parse_value"]

HIDDEN: Final = "[hidden]"
"""The printed form of a password."""


class ConfigError(Invalid):
    """A setting cannot take this value. The text is Kafka's; the controller answers it with INVALID_CONFIG."""

    @classmethod
    def of(cls, name: str, value: object, why: str | None = None) -> ConfigError:
        """Kafka's sentence for a value that does not fit ``name``."""
        shown = "null" if value is None else value
        return cls(f"Invalid value {shown} for configuration {name}" + (f": {why}" if why else ""))


class Password(Struct, frozen=True):
    """A secret; only :attr:`secret` shows it, never ``str`` or ``repr``."""

    secret: str

    def __repr__(self) -> str:
        return HIDDEN


ConfigValue = bool | int | float | str | tuple[str, ...] | Password | None
"""A typed setting; a list is a tuple, a class stays its name, ``None`` is Kafka's null."""


class ConfigType(IntEnum):
    """The type of a setting; the number goes into DescribeConfigs (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BITS: Final[Mapping[ConfigType, int]] = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_COMMA: Final = re.compile(r"\s*,\s*")
_DOUBLE: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?)", re.ASCII)


def parse_value(name: str, kind: ConfigType, text: str) -> ConfigValue:
    """``text`` as a value of ``kind``. Raises `ConfigError` with Kafka's text."""
    return _PARSERS[kind](name, kind, text)


def _parse_boolean(name: str, _kind: ConfigType, text: str) -> ConfigValue:
    word = text.strip().lower()
    if word not in {"true", "false"}:
        raise ConfigError.of(name, text, "Expected value to be either true or false")
    return word == "true"


def _parse_integer(name: str, kind: ConfigType, text: str) -> ConfigValue:
    word = text.strip()
    limit = 1 << _BITS[kind]
    # the length is checked first: a number of a million digits must cost nothing
    if len(word) > 40 or not _INTEGER.fullmatch(word) or not -limit <= int(word) < limit:
        raise ConfigError.of(name, text, f"Not a number of type {kind.name}")
    return int(word)


def _parse_double(name: str, kind: ConfigType, text: str) -> ConfigValue:
    word = text.strip()
    if len(word) > 400 or not _DOUBLE.fullmatch(word):
        raise ConfigError.of(name, text, f"Not a number of type {kind.name}")
    return float(word.rstrip("dDfF"))


def _parse_text(_name: str, _kind: ConfigType, text: str) -> ConfigValue:
    return text.strip()


def _parse_list(_name: str, _kind: ConfigType, text: str) -> ConfigValue:
    word = text.strip()
    return tuple(_COMMA.split(word)) if word else ()


def _parse_password(_name: str, _kind: ConfigType, text: str) -> ConfigValue:
    return Password(text)


_PARSERS: Final[Mapping[ConfigType, Callable[[str, ConfigType, str], ConfigValue]]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: _parse_text,
    ConfigType.INT: _parse_integer,
    ConfigType.SHORT: _parse_integer,
    ConfigType.LONG: _parse_integer,
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
    ConfigType.CLASS: _parse_text,
    ConfigType.PASSWORD: _parse_password,
}


def format_value(value: ConfigValue) -> str | None:
    """The text Kafka prints for a typed value; a password is hidden, null stays ``None``."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _java_double(value)
    return str(value)


def _java_double(value: float) -> str:
    """As ``Double.toString`` prints it: ``0.5``, ``1.7976931348623157E308``, ``1.0E-5``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:  # outside of this Java changes to an exponent
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    tail = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{tail}E{int(exponent) + len(digits) - 1}"
