"""Broker settings of replication."""

import pytest

from stratalog.metadata.settings.catalogue.replication import REPLICATION_SETTINGS

_ROWS = {row.name: row for row in REPLICATION_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("replica.lag.time.max.ms", 30000),
        ("min.insync.replicas", 1),
        ("replica.fetch.max.bytes", 1048576),
        ("replica.fetch.wait.max.ms", 500),
        ("replica.high.watermark.checkpoint.interval.ms", 5000),
        ("num.replica.alter.log.dirs.threads", None),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default
