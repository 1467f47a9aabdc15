"""Sizes and time spans as people write them: ``100MiB``, ``6h``. Commands, files and options of Spark read them alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from stratalog.wire.errors import Invalid

__all__ = ["parse_duration_ms", "parse_size_bytes"]

_SIZE_UNITS: Final = {"": 1, "b": 1} | {
    spelling: 1 << 10 * (power + 1)
    for power, letter in enumerate("kmgt")
    for spelling in (letter, f"{letter}b", f"{letter}ib")
}
"""Powers of 1024 in any spelling."""
_TIME_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_QUANTITY: Final = re.compile(r"(-?[0-9]{1,19})\s*([A-Za-z]*)")


def parse_size_bytes(text: str) -> int:
    """Bytes from a number with or without a unit: KiB, kB and k are 1024 bytes, MiB, MB and m 1024 of those, up to T.

    Negative numbers are Kafka's special values.

    Raises `Invalid`.
    """
    return _scaled(text, _SIZE_UNITS, "a size: write bytes, or 100MiB")


def parse_duration_ms(text: str) -> int:
    """Milliseconds from a number with or without ms, s, m, min, h or d; negative ones are Kafka's special values.

    Raises `Invalid`.
    """
    return _scaled(text, _TIME_UNITS_MS, "a time span: write milliseconds, or 6h")


def _scaled(text: str, units: Mapping[str, int], wanted: str) -> int:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        raise Invalid(f"{text!r} is not {wanted}")
    return int(match[1]) * units[match[2].lower()]
