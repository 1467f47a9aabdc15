"""Broker settings that are given for one listener: ``listener.name.<listener>.<setting>`` (KIP-226).

They are known, kept and described as in Kafka; in this release a setting holds for all listeners, so they have no
effect. A listener need not exist for it. SASL settings may have a mechanism in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from stratalog.metadata.settings.by_name import definitions, is_security
from stratalog.metadata.settings.catalogue.definition import ConfigDef
from stratalog.metadata.settings.catalogue.types import format_value
from stratalog.metadata.settings.resolution import ConfigEntry, ConfigSource, ConfigSynonym

__all__ = ["LISTENER_PREFIX", "is_listener_security", "listener_definition", "resolve_listener_settings"]

LISTENER_PREFIX: Final = "listener.name."


def listener_definition(name: str) -> ConfigDef | None:
    """The definition of a listener's setting: the row of the broker
    setting under this name; None for any other name.
    """
    row = _base(name)
    return None if row is None else replace(row, name=name)


def is_listener_security(name: str) -> bool:
    """Whether a listener's setting is one that protects connections, or identities."""
    row = _base(name)
    return row is not None and is_security(row.name)


def _base(name: str) -> ConfigDef | None:
    if not name.startswith(LISTENER_PREFIX):
        return None
    listener, _, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    known = definitions()
    found = known.get(rest) or known.get(rest.partition(".")[2])
    return found if listener else None


def resolve_listener_settings(
    layers: tuple[tuple[ConfigSource, Mapping[str, str]], ...], entries: Mapping[str, ConfigEntry]
) -> dict[str, ConfigEntry]:
    """Every listener's setting that one of the layers holds, nearest layer first.

    Without it the broker setting of ``entries`` holds; a setting that is not among them has none. A text that this release
    cannot read is passed over.
    """
    found: dict[str, ConfigEntry] = {}
    for name in {name for _, texts in layers for name in texts}:
        base = _base(name)
        if base is None:
            continue
        row = replace(base, name=name)
        read = [(source, row.read(texts[name])) for source, texts in layers if name in texts]
        given = [(source, value) for source, value in read if value is not None]
        if not given:
            continue
        mine = tuple(
            ConfigSynonym(name, None if row.is_sensitive else format_value(value), source) for source, value in given
        )
        others = entries[base.name].synonyms if base.name in entries else ()
        found[name] = ConfigEntry(row, given[0][1], given[0][0], (*mine, *others), is_read_only=True)
    return found
