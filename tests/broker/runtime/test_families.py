"""The kinds of families are Prometheus's."""

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from stratalog.broker.runtime.families import Kind


def test_kinds_are_those_of_prometheus():
    """By the words of the text format."""
    types = [each("name", "text").type for each in (CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily)]
    assert types == [kind.value for kind in Kind]
