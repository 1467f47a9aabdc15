"""Which settings steer the tiering of a topic, and what is worth knowing about a choice that is allowed. Pure.

A forbidden choice is refused by `stratalog.metadata.settings.topic_rules`; this is for the rest, one sentence each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from stratalog.metadata.settings.catalogue.types import ConfigValue

__all__ = ["TIERING_NAMES", "tiering_advice"]

TIERING_NAMES: Final = (
    "remote.storage.enable",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "retention.ms",
    "retention.bytes",
    "local.retention.ms",
    "local.retention.bytes",
    "segment.ms",
    "segment.bytes",
    "remote.copy.lag.ms",
    "remote.copy.lag.bytes",
    "stratalog.upload.lag.ms",
    "stratalog.upload.part.bytes",
    "stratalog.storage.class",
)
"""The topic settings that steer what is archived, when, how, and how much stays local."""

_DAY_MS: Final = 86_400_000
_BILLED_DAYS: Final = {"STANDARD_IA": 30, "ONEZONE_IA": 30, "GLACIER_IR": 90}
"""Shortest time that Amazon S3 bills an object of the class for."""
_ONE_COPY: Final = ("ONEZONE_IA", "EXPRESS_ONEZONE", "REDUCED_REDUNDANCY")

Values = Mapping[str, ConfigValue]


def _number(values: Values, name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value


def _local(values: Values, unit: str) -> int:
    local = _number(values, f"local.retention.{unit}")
    return _number(values, f"retention.{unit}") if local == -2 else local


def _lagging(values: Values) -> str | None:
    by_age = _number(values, "remote.copy.lag.ms")
    age_ms = _local(values, "ms") if by_age == -1 else by_age
    if not _number(values, "remote.copy.lag.bytes"):
        age_ms = 0
    if age_ms < 0:
        size_bytes = _number(values, "remote.copy.lag.bytes")
        bound = _local(values, "bytes") if size_bytes == -1 else size_bytes
        if bound < 0:
            return "Nothing is ever uploaded: both copy lags follow a local retention that has no bound."
        return f"Segments are uploaded by size only, once {bound} bytes lie behind them."
    longest_ms = max(age_ms, _number(values, "stratalog.upload.lag.ms"))
    if not longest_ms:
        return None
    return f"For {longest_ms} ms what is written exists on local disks only: a lost disk loses it."


def _nothing_leaves(values: Values) -> str | None:
    if _local(values, "ms") == _number(values, "retention.ms") and _local(values, "bytes") == _number(
        values, "retention.bytes"
    ):
        return (
            "Local retention is that of the topic: nothing leaves the local disk before it expires; set "
            "local.retention.ms or local.retention.bytes."
        )
    return None


def _gone_at_once(values: Values) -> str | None:
    local, segment = _local(values, "bytes"), _number(values, "segment.bytes")
    if 0 <= local < segment:
        return (
            f"local.retention.bytes ({local}) is less than one segment ({segment}): readers who are one segment behind "
            "read from the bucket."
        )
    return None


def _short_lived(values: Values) -> str | None:
    days = _BILLED_DAYS.get(str(values["stratalog.storage.class"]), 0)
    retention_ms = _number(values, "retention.ms")
    if 0 <= retention_ms < days * _DAY_MS:
        return (
            f"Amazon S3 bills an object of {values['stratalog.storage.class']} for {days} days at least; retention.ms "
            f"removes it after {retention_ms / _DAY_MS:.3g}."
        )
    return None


def _one_copy(values: Values) -> str | None:
    name = values["stratalog.storage.class"]
    if name in _ONE_COPY:
        return f"{name} keeps objects less safely than STANDARD, and once archived the local copy goes."
    return None


_ADVICE: Final[tuple[Callable[[Values], str | None], ...]] = (
    _lagging,
    _nothing_leaves,
    _gone_at_once,
    _short_lived,
    _one_copy,
)


def tiering_advice(values: Values) -> list[str]:
    """Sentences about the typed topic settings ``values``; none for a topic that is not tiered."""
    if not values["remote.storage.enable"] or values["remote.log.copy.disable"]:
        return []
    return [text for advise in _ADVICE if (text := advise(values)) is not None]
