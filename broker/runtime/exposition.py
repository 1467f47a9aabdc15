"""The Prometheus text of figures, by prometheus-client, in parts that take a millisecond each.

It is imported at the first scrape: prometheus-client brings an HTTP server of its own, a megabyte that a broker without a
scraper does not need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from stratalog.broker.runtime.families import Family, Kind

__all__ = ["ROWS_A_PART", "exposition"]

ROWS_A_PART: Final = 128
_HISTOGRAMS_A_PART: Final = 8
"""A row of one has some thirty lines."""


def exposition(families: Iterable[Family | None]) -> Iterator[bytes | None]:
    """The text of the families in parts of at most `ROWS_A_PART` rows; each None, a place for a pause, is handed on."""
    for family in families:
        if family is None:
            yield None
            continue
        rows, count = iter(family.rows), _HISTOGRAMS_A_PART if family.kind is Kind.HISTOGRAM else ROWS_A_PART
        yield _text(family, islice(rows, count))
        while some := list(islice(rows, count)):
            yield _text(family, some).split(b"\n", 2)[2]  # a family has one HELP and one TYPE


def _text(family: Family, rows: Iterable[tuple[tuple[str, ...], Any]]) -> bytes:
    made: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    if family.kind is Kind.HISTOGRAM:
        made = HistogramMetricFamily(family.name, family.text, labels=family.labels)
        for labels, (buckets, total) in rows:
            made.add_metric(labels, buckets=buckets, sum_value=total)
    else:
        made = (CounterMetricFamily if family.kind is Kind.COUNTER else GaugeMetricFamily)(
            family.name, family.text, labels=family.labels
        )
        for labels, value in rows:
            made.add_metric(labels, value)
    return generate_latest(_Only(made))


class _Only(Collector):
    """A collector of one family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)
