"""The figures of one name, as every exposition of them needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct

__all__ = ["Family", "Kind", "Labels", "Samples"]

Labels = Mapping[str, str]
Samples = Callable[[], Iterable[tuple[Labels, float] | None]]
"""Rows; a None among them is a place for a pause, for rows that may be many."""


class Kind(Enum):
    """The types of Prometheus: a counter only grows, a gauge is a present value, a histogram counts by size."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(Struct):
    """All samples of one name, which stand together in the text.

    ``rows`` may be made while they are read: the values of each row's labels, and its number. For a histogram the number is
    its buckets, each with its upper bound and the count below it, and the sum.
    """

    kind: Kind
    name: str
    """A counter has it without ``_total``."""
    text: str
    labels: tuple[str, ...]
    rows: Iterable[tuple[tuple[str, ...], Any]]
