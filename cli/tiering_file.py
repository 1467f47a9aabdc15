"""``tiering.toml``: how topics are to be archived, as a file; and what differs from how they are. Pure.

.. code-block:: toml

    [topics.orders]
    remote.storage.enable = true
    local.retention.ms = "6h"
    segment.bytes = "64MiB"
    stratalog.storage.class = "default"     # back to the default

Names are Kafka's and our own, written with dots or in quotes. A setting that the file does not name stays as it is.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from stratalog.metadata.settings.tiering_advice import TIERING_NAMES
from stratalog.quantities import parse_duration_ms, parse_size_bytes
from stratalog.wire.errors import Invalid

__all__ = ["SettingChange", "Wanted", "changes_of", "read_tiering_file"]

DEFAULT: Final = "default"

Wanted = dict[str, dict[str, str | None]]
"""By topic and setting; None is the default."""


class SettingChange(NamedTuple):
    """One setting of a topic that is not as the file wants it; None is the default."""

    topic: str
    setting: str
    now: str | None
    wanted: str | None


def read_tiering_file(text: str, where: str = "tiering.toml") -> Wanted:
    """The settings that the file wants. Raises `Invalid` with file, topic
    and setting for anything that is not of the form.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{where} is not TOML: {error}") from error
    other = sorted(set(document) - {"topics"})
    if other:
        raise Invalid(f"{where}: {other[0]!r} has no meaning here; write [topics.NAME] and its settings below it")
    topics = document.get("topics", {})
    if not isinstance(topics, dict):
        raise Invalid(f"{where}: topics is no table; write [topics.NAME] and its settings below it")
    return {topic: _settings(f"{where}, [topics.{topic}]", rows) for topic, rows in topics.items()}


def _settings(where: str, rows: Any) -> dict[str, str | None]:
    if not isinstance(rows, dict):
        raise Invalid(f"{where} is no table")
    found: dict[str, str | None] = {}
    for name, value in _flat("", rows):
        if name not in TIERING_NAMES:
            nearest = difflib.get_close_matches(name, TIERING_NAMES, n=1, cutoff=0.6)
            hint = f": did you mean {nearest[0]}?" if nearest else f"; those are {', '.join(TIERING_NAMES)}"
            raise Invalid(f"{where}: {name} is no setting of tiering{hint}")
        found[name] = _text(f"{where}: {name}", name, value)
    return found


def _flat(prefix: str, rows: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Dotted keys are tables in TOML: ``local.retention.ms = 1`` and ``"local.retention.ms" = 1`` are the same here."""
    for name, value in rows.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def _text(where: str, name: str, value: Any) -> str | None:
    if value == DEFAULT:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise Invalid(f"{where} is a text, a number, true, false, or {DEFAULT!r}, not {value!r}")
    try:
        if name.endswith(".ms"):
            return str(parse_duration_ms(value))
        if name.endswith(".bytes"):
            return str(parse_size_bytes(value))
    except Invalid as error:
        raise Invalid(f"{where}: {error}") from error
    return value


def changes_of(wanted: Wanted, own: Mapping[str, Mapping[str, str | None]]) -> list[SettingChange]:
    """The settings to change, in the order of the file; ``own`` are the settings that each topic has of its own now."""
    return [
        SettingChange(topic, name, own[topic].get(name), text)
        for topic, settings in wanted.items()
        for name, text in settings.items()
        if own[topic].get(name) != text
    ]
