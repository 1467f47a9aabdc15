"""Fields that a newer writer put into our JSON: kept as they are and written back (``docs/format/bucket.md``).

They are held as ``(name, JSON text)`` pairs, sorted by name, so that the values that carry them stay immutable and
comparable.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import topic_name_problem

__all__ = ["UnknownFields", "canonical_json", "integer", "keep_unknown", "restore_unknown", "text", "topic_name"]

UnknownFields: TypeAlias = tuple[tuple[str, str], ...]


def canonical_json(value: object) -> str:
    """The one text we write for ``value``: no blanks, keys in the order given, ASCII only."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def keep_unknown(fields: Mapping[str, Any], known: Collection[str]) -> UnknownFields:
    """The part of ``fields`` that is not in ``known``."""
    return tuple(sorted((name, canonical_json(value)) for name, value in fields.items() if name not in known))


def restore_unknown(fields: dict[str, Any], unknown: UnknownFields) -> dict[str, Any]:
    """Add what :func:`keep_unknown` kept to ``fields``, and return them."""
    for name, value in unknown:
        fields[name] = json.loads(value)
    return fields


def integer(fields: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """The whole number under ``name``. Raises `Corrupt` if there is none and no ``default``."""
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Corrupt(f"field {name!r} holds {value!r}, a whole number is expected")
    return value


def topic_name(fields: Mapping[str, Any], name: str = "topic") -> str:
    """The text under ``name``, a topic's name. Raises `Corrupt` for one that no topic may have."""
    value = text(fields, name)
    if (problem := topic_name_problem(value)) is not None:
        raise Corrupt(f"field {name!r} is no name of a topic: {problem}")
    return value


def text(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """The text under ``name``. Raises `Corrupt` if there is none and no ``default``."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise Corrupt(f"field {name!r} holds {value!r}, a text is expected")
    return value
