"""Settings of a topic."""

import pytest

from stratalog.metadata.settings.catalogue.topic import TOPIC_SETTINGS

_ROWS = {row.name: row for row in TOPIC_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("cleanup.policy", ("delete",)),
        ("compression.type", "producer"),
        ("compression.lz4.level", 9),
        ("compression.zstd.level", 3),
        ("compression.gzip.level", -1),
        ("file.delete.delay.ms", 60000),
        ("local.retention.ms", -2),
        ("local.retention.bytes", -2),
        ("message.timestamp.type", "CreateTime"),
        ("message.timestamp.after.max.ms", 3600000),
        ("retention.bytes", -1),
        ("segment.jitter.ms", 0),
        ("remote.storage.enable", False),
        ("flush.ms", 9223372036854775807),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default


def test_a_segment_is_at_least_a_mebibyte():
    """Kafka 4 raised the minimum; the internal setting goes below it for tests."""
    from stratalog.metadata.settings.catalogue.types import ConfigError

    with pytest.raises(ConfigError, match="at least 1048576"):
        _ROWS["segment.bytes"].parse("1048575")
    assert _ROWS["internal.segment.bytes"].parse("100") == 100


def test_sync_on_ack_is_ours_and_says_what_kafkas_default_is():
    """flush.messages=1, with Kafka's page-cache default kept beside it."""
    row = _ROWS["flush.messages"]
    assert (row.default, row.kafka_default) == (1, (1 << 63) - 1)


def test_only_five_settings_have_no_broker_default():
    """As in Kafka's reference, where their server default is null."""
    assert {name for name, row in _ROWS.items() if not row.synonyms and not row.internal} == {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
