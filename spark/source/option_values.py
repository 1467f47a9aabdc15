"""Values of options: numbers, sizes, choices and JSON, each refused with a sentence that names its option. Pure.

``given`` maps option names in lower case to what the user wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stratalog.quantities import parse_duration_ms, parse_size_bytes
from stratalog.wire.errors import Invalid

__all__ = ["choice", "duration_ms", "flag", "integer", "is_int", "json_object", "positive", "size"]


def json_object(name: str, value: str) -> dict[str, Any]:
    """The value of an option as a JSON object. Raises `Invalid` unless it is one, and where a name stands in it twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for each, content in pairs:
            if each in found:  # JSON takes the last one, and what the others ask for would be missing without a word
                raise Invalid(f"option '{name}' names '{each}' twice: '{value}'")
            found[each] = content
        return found

    try:
        parsed = json.loads(value, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"option '{name}' is not JSON: '{value}': {error}") from error
    if not isinstance(parsed, dict):
        raise Invalid(f"option '{name}' must be a JSON object, got '{value}'")
    return parsed


def is_int(value: object) -> bool:
    """Whether a value of JSON is a whole number; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def integer(name: str, value: str, lowest: int) -> int:
    """The value of an option as a whole number. Raises `Invalid` unless it is one, and at least ``lowest``."""
    try:
        number = int(value.strip())
    except ValueError as error:
        raise Invalid(f"option '{name}' must be a whole number, got '{value}'") from error
    if number < lowest:
        raise Invalid(f"option '{name}' must be at least {lowest}, got {number}")
    return number


def positive(given: Mapping[str, str], name: str) -> int | None:
    """The value of an option as a number from 1 on, None where it is not given. Raises `Invalid`."""
    value = given.get(name.lower())
    return None if value is None else integer(name, value, lowest=1)


def flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    """The value of an option as true or false. Raises `Invalid` for anything else."""
    value = given.get(name.lower(), str(default)).strip().lower()
    if value not in {"true", "false"}:
        raise Invalid(f"option '{name}' must be true or false, got '{value}'")
    return value == "true"


def choice(given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """The value of an option as one of ``choices``, the first where it is not given. Raises `Invalid`."""
    value = given.get(name.lower(), choices[0]).strip().lower()
    if value not in choices:
        raise Invalid(f"option '{name}' must be one of {', '.join(choices)}, got '{value}'")
    return value


def size(given: Mapping[str, str], name: str, default: int, highest: int = 1 << 50) -> int:
    """The value of an option as a size in bytes, from ``64m`` or ``1g`` or a plain number. Raises `Invalid`."""
    value = given.get(name.lower())
    if value is None:
        return default
    refusal = f"option '{name}' must be a size like 64m, 1g or bytes, at most {highest} bytes, got '{value}'"
    try:
        size_bytes = parse_size_bytes(value)
    except Invalid as error:
        raise Invalid(refusal) from error
    if not 0 < size_bytes <= highest:
        raise Invalid(refusal)
    return size_bytes


def duration_ms(given: Mapping[str, str], name: str, default_ms: int) -> int:
    """The value of an option as a time in ms, from ``30s``, ``15m`` or a plain number of ms. Raises `Invalid`."""
    value = given.get(name.lower())
    if value is None:
        return default_ms
    refusal = f"option '{name}' must be a time like 30s, 15m or milliseconds, got '{value}'"
    try:
        span_ms = parse_duration_ms(value)
    except Invalid as error:
        raise Invalid(refusal) from error
    if span_ms < 0:
        raise Invalid(refusal)
    return span_ms
