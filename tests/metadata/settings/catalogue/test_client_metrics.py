"""Settings of a client metrics subscription."""

from stratalog.metadata.settings.catalogue.client_metrics import CLIENT_METRICS_SETTINGS


def test_defaults_are_kafkas():
    """Every five minutes, no metric, every client."""
    assert {row.name: row.default for row in CLIENT_METRICS_SETTINGS} == {
        "interval.ms": 300_000,
        "match": (),
        "metrics": (),
    }
