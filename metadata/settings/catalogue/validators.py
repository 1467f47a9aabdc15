"""The demands on a value of a setting beyond its type, with Kafka's words when it does not meet them.

A validator is a small frozen value: calling it raises `ConfigError`, ``str`` of it is the "Valid Values" column
of Kafka's documentation. Source of the texts: ``ConfigDef.Range``, ``ValidString``, ``ValidList`` (KIP-1161),
``ThrottledReplicaListValidator``, ``CompressionType``.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final, Protocol

from msgspec import Struct

from stratalog.metadata.settings.catalogue.types import ConfigError, ConfigValue

__all__ = [
    "AddressCounts",
    "AnyList",
    "GzipLevel",
    "IgnoreCaseOneOf",
    "ListOf",
    "NonEmptyText",
    "OneOf",
    "Range",
    "StorageClassName",
    "ThrottledReplicas",
    "Validator",
    "address_counts",
    "at_least",
    "between",
]

_COUNT: Final = re.compile(r"[0-9]{1,10}", re.ASCII)


def address_counts(text: str) -> dict[str, int]:
    """The counts of ``address:count`` pairs, by address as sockets tell it; IPv6 may stand in brackets.

    Raises ValueError with what is wrong. Kafka takes names of hosts, too; a name is not looked up here.
    """
    counts: dict[str, int] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        address, _, count = pair.rpartition(":")
        if _COUNT.fullmatch(count) is None or int(count) >= 1 << 31:
            raise ValueError(f"{pair!r} is not address:count")
        host = str(ip_address(address.strip().removeprefix("[").removesuffix("]")))
        if host in counts:
            raise ValueError(f"{host} stands there twice")
        counts[host] = int(count)
    return counts


class AddressCounts(Struct, frozen=True):
    """``address:count`` pairs, none twice."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` if ``value`` may not stand under ``name``."""
        try:
            address_counts(value if isinstance(value, str) else "")
        except ValueError as error:
            why = f"{error}; Value must be a list of address:count, as 127.0.0.1:100,[::1]:50, without names of hosts"
            raise ConfigError.of(name, value, why) from error

    def __str__(self) -> str:
        return "address:count,address:count,..."


class Validator(Protocol):
    """Raises `ConfigError` if ``value`` may not stand under ``name``."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Check one typed value."""
        ...


class Range(Struct, frozen=True):
    """A number with bounds, both inclusive; ``None`` is no bound."""

    minimum: float | None = None
    maximum: float | None = None

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` with Kafka's words if ``value`` may not stand under ``name``."""
        if not isinstance(value, int | float):
            raise ConfigError.of(name, None, "Value must be non-null")
        if self.minimum is not None and value < self.minimum:
            raise ConfigError.of(name, value, f"Value must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise ConfigError.of(name, value, f"Value must be no more than {self.maximum}")

    def __str__(self) -> str:
        if self.maximum is None:
            return f"[{self.minimum},...]"
        return f"[...,{self.maximum}]" if self.minimum is None else f"[{self.minimum},...,{self.maximum}]"


def at_least(minimum: int) -> Range:
    """A lower bound only."""
    return Range(minimum)


def between(minimum: int, maximum: int) -> Range:
    """Both bounds."""
    return Range(minimum, maximum)


class OneOf(Struct, frozen=True):
    """One of some words, case counts."""

    words: tuple[str, ...]

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` with Kafka's words if ``value`` may not stand under ``name``."""
        if value not in self.words:
            raise ConfigError.of(name, value, f"String must be one of: {', '.join(self.words)}")

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]"


class IgnoreCaseOneOf(Struct, frozen=True):
    """One of some words, case does not count; null is not one of them."""

    words: tuple[str, ...]

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` with Kafka's words if ``value`` may not stand under ``name``."""
        if not isinstance(value, str) or value.upper() not in {word.upper() for word in self.words}:
            why = f"String must be one of (case insensitive): {', '.join(word.upper() for word in self.words)}"
            raise ConfigError.of(name, value, why)

    def __str__(self) -> str:
        return f"(case insensitive) [{', '.join(word.upper() for word in self.words)}]"


class NonEmptyText(Struct, frozen=True):
    """A text with at least one character; null is accepted where the setting has no default."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` with Kafka's words if ``value`` may not stand under ``name``."""
        if value == "":
            raise ConfigError.of(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


def _check_elements(name: str, value: ConfigValue, *, empty_allowed: bool, words: tuple[str, ...]) -> None:
    if not isinstance(value, tuple):
        raise ConfigError(f"Configuration '{name}' values must not be null.")
    if not value and not empty_allowed:
        valid = f"[{', '.join(words)}]" if words else "any non-empty value"
        raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
    if len(set(value)) != len(value):
        raise ConfigError(f"Configuration '{name}' values must not be duplicated.")
    for element in value:
        if not element:
            raise ConfigError(f"Configuration '{name}' values must not be empty.")
        if words and element not in words:
            raise ConfigError.of(name, element, f"String must be one of: {', '.join(words)}")


class ListOf(Struct, frozen=True):
    """A list of some words, none twice."""

    words: tuple[str, ...]
    empty_allowed: bool = True

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` with Kafka's words if ``value`` may not stand under ``name``."""
        _check_elements(name, value, empty_allowed=self.empty_allowed, words=self.words)

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]"


class AnyList(Struct, frozen=True):
    """A list of anything, none twice and none empty."""

    empty_allowed: bool = True
    null_allowed: bool = False

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` with Kafka's words if ``value`` may not stand under ``name``."""
        if value is None and self.null_allowed:
            return
        _check_elements(name, value, empty_allowed=self.empty_allowed, words=())

    def __str__(self) -> str:
        return "" if self.empty_allowed else "non-empty list"


class GzipLevel(Struct, frozen=True):
    """1 to 9, or -1 for zlib's own choice (KIP-390)."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` with Kafka's words if ``value`` may not stand under ``name``."""
        if not isinstance(value, int) or (value != -1 and not 1 <= value <= 9):
            raise ConfigError.of(name, value, "Value must be between 1 and 9 or equal to -1")

    def __str__(self) -> str:
        return "[1,...,9] or -1"


_CLASS_NAME: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,63}")
_SLEEPING_CLASSES: Final = ("GLACIER", "DEEP_ARCHIVE")


class StorageClassName(Struct, frozen=True):
    """A storage class of S3 whose objects can be read at once, or nothing; services may have names of their own."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` for a class that has to be restored before it is read, and for what is no name."""
        if value == "":
            return
        if value in _SLEEPING_CLASSES:
            why = (
                "Objects of this class must be restored for hours before they are read; GLACIER_IR can be read at once"
            )
            raise ConfigError.of(name, value, why)
        if not isinstance(value, str) or _CLASS_NAME.fullmatch(value) is None:
            why = "Value must be a storage class as S3 names it, like STANDARD_IA, or empty for the bucket's own"
            raise ConfigError.of(name, value, why)

    def __str__(self) -> str:
        return "a storage class that is read at once, as STANDARD_IA; or empty"


_REPLICA: Final = re.compile(r"(?:[0-9]+:[0-9]+)?")


class ThrottledReplicas(Struct, frozen=True):
    """``*`` or a list of ``partition:broker``."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` with Kafka's words if ``value`` may not stand under ``name``."""
        elements = value if isinstance(value, tuple) else ()
        if all(_REPLICA.fullmatch(element.strip()) for element in elements) or "".join(elements).strip() == "*":
            return
        why = (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise ConfigError.of(name, f"[{', '.join(elements)}]", why)

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
