"""Broker settings of tiering."""

import pytest

from stratalog.metadata.settings.catalogue.remote_log import REMOTE_LOG_SETTINGS

_ROWS = {row.name: row for row in REMOTE_LOG_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("remote.fetch.max.wait.ms", 500),
        ("remote.list.offsets.request.timeout.ms", 30000),
        ("remote.log.manager.copy.max.bytes.per.second", 9223372036854775807),
        ("remote.log.manager.fetch.max.bytes.per.second", 9223372036854775807),
        ("remote.log.manager.task.interval.ms", 30000),
        ("remote.log.manager.task.retry.backoff.ms", 500),
        ("remote.log.manager.task.retry.backoff.max.ms", 30000),
        ("remote.log.manager.task.retry.jitter", 0.2),
        ("remote.log.metadata.custom.metadata.max.bytes", 128),
        ("remote.log.storage.manager.impl.prefix", "rsm.config."),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default


def test_tiering_is_on_unless_switched_off():
    """Ours: the archive is what the broker is for."""
    row = _ROWS["remote.log.storage.system.enable"]
    assert (row.default, row.kafka_default) == (True, False)
