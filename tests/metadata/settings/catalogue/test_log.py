"""Broker settings of the log."""

import pytest

from stratalog.metadata.settings.catalogue.log import LOG_SETTINGS

_ROWS = {row.name: row for row in LOG_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("log.segment.bytes", 1073741824),
        ("log.retention.hours", 168),
        ("log.retention.minutes", None),
        ("log.retention.ms", None),
        ("log.roll.hours", 168),
        ("log.index.size.max.bytes", 10485760),
        ("log.flush.interval.ms", None),
        ("log.flush.scheduler.interval.ms", 9223372036854775807),
        ("log.retention.check.interval.ms", 300000),
        ("log.cleaner.dedupe.buffer.size", 134217728),
        ("log.cleaner.io.max.bytes.per.second", 1.7976931348623157e308),
        ("message.max.bytes", 1048588),
        ("producer.id.expiration.ms", 86400000),
        ("num.recovery.threads.per.data.dir", 2),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default


def test_sync_on_ack_and_the_directory_are_ours():
    """Both keep Kafka's value beside our own."""
    assert (_ROWS["log.flush.interval.messages"].default, _ROWS["log.flush.interval.messages"].kafka_default) == (
        1,
        (1 << 63) - 1,
    )
    assert _ROWS["log.dir"].kafka_default == ("/tmp/kafka-logs",)


def test_hours_and_minutes_cannot_change_while_the_broker_runs():
    """Only the settings in milliseconds are dynamic."""
    assert _ROWS["log.retention.ms"].is_dynamic
    assert not _ROWS["log.retention.hours"].is_dynamic
    assert not _ROWS["log.roll.hours"].is_dynamic
