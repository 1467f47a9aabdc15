"""Which rows of a topic a Python program asks for, in Python's words, as the options of a read. Pure."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Final, SupportsIndex, TypeAlias, cast

from stratalog.spark.source.options import EARLIEST, LATEST, OffsetBound, ReadOptions, Subscription, parse_options
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

__all__ = ["Bound", "Place", "select"]

Place: TypeAlias = int | datetime
"""An offset, or a time with its zone."""
Bound: TypeAlias = Place | Mapping[int, Place] | None
"""One place for all partitions, one for each of those named, or the end of the archive on that side."""

_ISOLATION: Final = "kafka.isolation.level"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def select(
    topic: str,
    options: Mapping[str, str],
    *,
    columns: Iterable[str] | None = None,
    start: Bound = None,
    end: Bound = None,
    partitions: Iterable[int] | None = None,
    isolation: str | None = None,
) -> ReadOptions:
    """The read of ``topic`` from ``start`` to before ``end``; ``options`` are those of the Spark source.

    A time stands for the first record that is not older. Raises `Invalid` for what makes no sense.
    """
    given = dict(options)
    if isolation is not None:
        given = {name: value for name, value in given.items() if name.lower() != _ISOLATION}
        given[_ISOLATION] = isolation
    if partitions is None:
        subscription = Subscription(topics=(topic,))
    else:
        numbers = tuple(sorted({_offset("partitions", each) for each in partitions}))
        if not numbers:
            raise Invalid(f"partitions: none of topic '{topic}' is named")
        subscription = Subscription(assignment={topic: numbers})
    if columns is not None:
        given["columns"] = ",".join([columns] if isinstance(columns, str) else columns)
    parsed = parse_options(given, subscription=subscription)
    return replace(
        parsed,
        starting=parsed.starting if start is None else _bound("start", topic, start, EARLIEST),
        ending=parsed.ending if end is None else _bound("end", topic, end, LATEST),
        # A partition that ended before a time has no rows after it, which is an answer and no mistake.
        start_beyond_last_is_latest=True,
    )


def _bound(name: str, topic: str, bound: Place | Mapping[int, Place], edge: int) -> OffsetBound:
    if isinstance(bound, datetime):
        return OffsetBound(edge, {}, {}, _milliseconds(name, bound))
    if not isinstance(bound, Mapping):
        return OffsetBound(_offset(name, bound), {}, {}, None)
    offsets, timestamps = {}, {}
    for partition, place in bound.items():
        whose = TopicPartition(topic, _offset(f"partitions of {name}", partition))
        if isinstance(place, datetime):
            timestamps[whose] = _milliseconds(name, place)
        else:
            offsets[whose] = _offset(name, place)
    return OffsetBound(edge, offsets, timestamps, None)


def _offset(name: str, value: object) -> int:
    if isinstance(value, date):
        raise Invalid(f"{name}: {value} has no time of day; give a datetime with its time zone")
    try:
        offset = operator.index(cast("SupportsIndex", value))
    except TypeError as error:
        raise Invalid(f"{name}: {value!r} is neither an offset nor a datetime") from error
    if offset < 0 or isinstance(value, bool):
        raise Invalid(f"{name}: {value!r} is no offset; leave it out for the end of the archive on that side")
    return offset


def _milliseconds(name: str, moment: datetime) -> int:
    """The first whole millisecond since 1970 that is not before ``moment``."""
    if moment.utcoffset() is None:
        raise Invalid(f"{name}: {moment.isoformat()} has no time zone; say datetime(…, tzinfo=UTC)")
    return max(0, -((_EPOCH - moment) // timedelta(milliseconds=1)))
