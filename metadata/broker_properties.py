"""The settings of a broker from its file: every name known, every value typed, all mistakes told at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from stratalog.metadata.broker_rules import BROKER_RULES
from stratalog.metadata.config_catalog import IGNORED_PREFIXES, definitions, describe_unknown
from stratalog.metadata.config_definition import ConfigDef
from stratalog.metadata.config_types import ConfigError, ConfigValue, format_value
from stratalog.wire.errors import Invalid

__all__ = ["BrokerConfig", "InvalidSettings", "parse_broker_properties"]

_LISTENER_PREFIX = "listener.name."
T = TypeVar("T", int, bool, str)


class InvalidSettings(Invalid):
    """Settings with which a broker does not start; :attr:`problems` has one sentence for each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class BrokerConfig(Mapping[str, ConfigValue]):
    """Every broker setting, typed: what the file says, else the default. Immutable."""

    __slots__ = ("_listener", "_texts", "_values", "ignored")

    def __init__(
        self,
        values: Mapping[str, ConfigValue],
        texts: Mapping[str, str],
        listener: Mapping[tuple[str, str], ConfigValue],
        ignored: Mapping[str, str],
    ) -> None:
        self._values = values
        self._texts = texts
        self._listener = listener
        self.ignored = ignored
        """What was given and has no effect here: name to one line why."""

    def __getitem__(self, name: str) -> ConfigValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={format_value(self._values[name])}" for name in sorted(self._texts))
        return f"BrokerConfig({given})"

    @property
    def texts(self) -> Mapping[str, str]:
        """What was given, as given: the static layer of `ConfigResolver`."""
        return self._texts

    def is_given(self, name: str) -> bool:
        """Whether the file sets ``name`` (even to its default)."""
        return name in self._texts

    def listener_value(self, listener: str, name: str) -> ConfigValue:
        """The value of ``name`` for one listener: ``listener.name.LISTENER.NAME``, else the plain one."""
        return self._listener.get((listener.lower(), name), self._values[name])

    def number(self, name: str) -> int:
        """An integer setting. Raises `KeyError` for an unknown name and `TypeError` for null or another type."""
        return self._typed(name, int)

    def optional_number(self, name: str) -> int | None:
        """An integer setting that may be null."""
        return None if self._values[name] is None else self.number(name)

    def flag(self, name: str) -> bool:
        """A boolean setting."""
        return self._typed(name, bool)

    def text(self, name: str) -> str:
        """A string setting that is not null."""
        return self._typed(name, str)

    def optional_text(self, name: str) -> str | None:
        """A string setting that may be null."""
        return None if self._values[name] is None else self.text(name)

    def words(self, name: str) -> tuple[str, ...]:
        """A list setting; null is the empty list."""
        value = self._values[name]
        if value is not None and not isinstance(value, tuple):
            raise TypeError(f"setting {name} is not a list")
        return value or ()

    @property
    def node_id(self) -> int:
        """``node.id``, else ``broker.id``, else our default."""
        if not self.is_given("node.id") and self.is_given("broker.id") and self.number("broker.id") >= 0:
            return self.number("broker.id")
        return self.number("node.id")

    @property
    def log_directories(self) -> tuple[str, ...]:
        """``log.dirs``, else ``log.dir``."""
        return self.words("log.dirs") or self.words("log.dir")

    def _typed(self, name: str, kind: type[T]) -> T:
        value = self._values[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TypeError(f"setting {name} is {format_value(value)}, not of type {kind.__name__}")
        return value


def parse_broker_properties(properties: Mapping[str, str]) -> BrokerConfig:
    """Type every property of a broker's file. Raises `InvalidSettings` naming every unknown name and bad value."""
    rows = definitions()
    values: dict[str, ConfigValue] = {name: row.default for name, row in rows.items()}
    listener: dict[tuple[str, str], ConfigValue] = {}
    ignored: dict[str, str] = {}
    problems: list[str] = []
    for name, text in properties.items():
        try:
            row = rows.get(name)
            if row is not None:
                values[name] = row.parse(text)
                _note(ignored, name, row)
            elif not _take_prefixed(name, text, listener, ignored):
                problems.append(describe_unknown(name))
        except ConfigError as error:
            problems.append(str(error))
    config = BrokerConfig(
        MappingProxyType(values),
        MappingProxyType({name: text for name, text in properties.items() if name in rows}),
        MappingProxyType(listener),
        MappingProxyType(ignored),
    )
    problems.extend(sentence for rule in BROKER_RULES if (sentence := rule(values)) is not None)
    if problems:
        raise InvalidSettings(tuple(problems))
    return config


def _note(ignored: dict[str, str], name: str, row: ConfigDef) -> None:
    if row.why_not is not None:
        ignored[name] = row.why_not


def _take_prefixed(name: str, text: str, listener: dict[tuple[str, str], ConfigValue], ignored: dict[str, str]) -> bool:
    """Whether ``name`` is a plug-in's setting or a setting of one listener (``listener.name.internal.ssl…``)."""
    for prefix, why in IGNORED_PREFIXES.items():
        if name.startswith(prefix) and name != prefix:
            ignored[name] = why
            return True
    if not name.startswith(_LISTENER_PREFIX):
        return False
    listener_name, _, rest = name.removeprefix(_LISTENER_PREFIX).partition(".")
    while rest:
        row = definitions().get(rest)
        if row is not None:
            listener[listener_name.lower(), rest] = row.parse(text)
            _note(ignored, name, row)
            return True
        # the mechanism may stand between: listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config
        rest = rest.partition(".")[2]
    return False
