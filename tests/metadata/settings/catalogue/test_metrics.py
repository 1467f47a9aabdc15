"""Broker settings of metrics."""

import pytest

from stratalog.metadata.settings.catalogue.metrics import METRIC_SETTINGS

_ROWS = {row.name: row for row in METRIC_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("metrics.num.samples", 2),
        ("metrics.sample.window.ms", 30000),
        ("metrics.recording.level", "INFO"),
        ("telemetry.max.bytes", 1048576),
        ("kafka.metrics.polling.interval.secs", 10),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default
