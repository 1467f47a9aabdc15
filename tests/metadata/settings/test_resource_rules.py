"""Settings of groups and of client metrics subscriptions."""

import pytest

from stratalog.metadata.settings.catalogue.types import ConfigError
from stratalog.metadata.settings.resolution import ConfigResolver, resolve_broker_config
from stratalog.metadata.settings.resource_rules import check_client_metrics, check_group
from stratalog.wire.errors import KafkaError


def check(overrides, static=None):
    static = static or {}
    broker = {name: entry.value for name, entry in resolve_broker_config(static).items()}
    check_group(overrides, ConfigResolver.for_groups(static), broker)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000"},
        {"share.record.lock.duration.ms": "15000", "share.isolation.level": "read_committed"},
        {"streams.num.standby.replicas": "2"},
    ],
)
def test_settings_within_the_brokers_bounds_are_allowed(overrides):
    """The bounds themselves included."""
    check(overrides)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"x": "1"}, "Unknown group config name: x"),
        (
            {"consumer.session.timeout.ms": "44999"},
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"consumer.heartbeat.interval.ms": "15001"},
            "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
        (
            {"share.delivery.count.limit": "11"},
            "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            {"consumer.session.timeout.ms": "soon"},
            "Invalid value soon for configuration consumer.session.timeout.ms: Not a number of type INT",
        ),
    ],
)
def test_settings_beyond_the_brokers_bounds_are_refused(overrides, sentence):
    """With Kafka's sentence."""
    with pytest.raises(ConfigError) as caught:
        check(overrides)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_session_lasts_longer_than_the_pause_between_heartbeats(kind):
    """Where the broker's bounds overlap."""
    static = {
        f"group.{kind}.min.session.timeout.ms": "5000",
        f"group.{kind}.session.timeout.ms": "45000",
    }
    check({f"{kind}.session.timeout.ms": "5001", f"{kind}.heartbeat.interval.ms": "5000"}, static)
    with pytest.raises(ConfigError, match=rf"{kind}.session.timeout.ms must be greater than {kind}.heartbeat"):
        check({f"{kind}.session.timeout.ms": "5000", f"{kind}.heartbeat.interval.ms": "5000"}, static)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"interval.ms": "100", "metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer."},
        {"match": "client_software_name=apache-kafka-java,client_id=app-.*"},
    ],
)
def test_a_subscription_is_read_as_in_kafkas_examples(overrides):
    """As Kafka's own examples."""
    check_client_metrics(overrides)


@pytest.mark.parametrize(
    ("kind", "overrides", "sentence"),
    [
        (KafkaError, {"x": "1"}, "Unknown client metrics configuration: x"),
        (
            KafkaError,
            {"interval.ms": "99"},
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000",
        ),
        (KafkaError, {"interval.ms": "3600001"}, "Invalid value 3600001 for interval.ms"),
        (ConfigError, {"match": "client_id"}, "Illegal client matching pattern: client_id"),
        (ConfigError, {"match": "colour=red"}, "Illegal client matching pattern: colour=red"),
        (ConfigError, {"match": "client_id=(["}, "Illegal client matching pattern: client_id="),
        (ConfigError, {"match": "client_id=" + "(" * 5_000}, "Illegal client matching pattern: client_id="),
    ],
)
def test_an_illegal_subscription_is_refused_with_kafkas_sentence(kind, overrides, sentence):
    """With Kafka's sentence, and INVALID_REQUEST for what Kafka checks itself."""
    with pytest.raises(kind) as caught:
        check_client_metrics(overrides)
    assert sentence in str(caught.value)
