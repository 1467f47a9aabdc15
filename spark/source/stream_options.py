"""The options that only a stream has: how much a micro-batch reads, and how often the archive is looked at. Pure.

Names and defaults of the limits are those of Spark's Kafka source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from stratalog.spark.source.option_values import duration_ms, positive
from stratalog.spark.source.stream_plan import DELAY_MS, BatchLimits
from stratalog.wire.errors import Invalid

__all__ = ["STARTING_NAMES", "STREAM_NAMES", "StreamOptions", "parse_stream"]

STREAM_NAMES: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "manifestRefresh",
    "discoveryInterval",
    "hotTailRefresh",
)
STARTING_NAMES: Final = ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp")
"""In lower case: without any of them a stream starts at the end."""
_ENDING_NAMES: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")

_REFRESH_MS: Final = 5000
_DISCOVERY_MS: Final = 60_000
_TAIL_MS: Final = 500


class StreamOptions(Struct, frozen=True):
    """Options of a stream besides those of a read."""

    limits: BatchLimits
    refresh_ms: int
    """Manifests are read again when what is known of them is older than this."""
    discovery_ms: int
    """New topics and partitions are looked for, by listing, when that was longer ago than this."""
    tail_ms: int
    """With ``hotTail`` the brokers are asked again when their last answer is older than this."""


def parse_stream(options: Mapping[str, str]) -> StreamOptions:
    """The options of one stream. Raises `Invalid` for malformed ones, and for those that only a read has."""
    given = {name.lower(): value for name, value in options.items()}
    for name in _ENDING_NAMES:
        if name.lower() in given:
            raise Invalid(
                f"option '{name}' is not for a stream, which goes on: use spark.read for a range of offsets, or "
                f"trigger(availableNow=True) to stop where the archive ends now"
            )
    if "@" in given.get("subscribe", "") + given.get("assign", ""):
        raise Invalid("a name with an '@' is a topic as it was, which does not grow: use spark.read, not readStream")
    offsets_max, offsets_min = positive(given, "maxOffsetsPerTrigger"), positive(given, "minOffsetsPerTrigger")
    if offsets_max is not None and offsets_min is not None and offsets_min > offsets_max:
        raise Invalid(
            f"option 'minOffsetsPerTrigger' ({offsets_min}) must not be above 'maxOffsetsPerTrigger' ({offsets_max})"
        )
    return StreamOptions(
        BatchLimits(offsets_max, offsets_min, duration_ms(given, "maxTriggerDelay", DELAY_MS)),
        duration_ms(given, "manifestRefresh", _REFRESH_MS),
        duration_ms(given, "discoveryInterval", _DISCOVERY_MS),
        duration_ms(given, "hotTailRefresh", _TAIL_MS),
    )
