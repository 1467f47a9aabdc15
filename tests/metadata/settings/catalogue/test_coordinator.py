"""Broker settings of groups."""

import pytest

from stratalog.metadata.settings.catalogue.coordinator import COORDINATOR_SETTINGS

_ROWS = {row.name: row for row in COORDINATOR_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("offsets.topic.num.partitions", 50),
        ("offsets.topic.replication.factor", 3),
        ("offsets.retention.minutes", 10080),
        ("group.initial.rebalance.delay.ms", 3000),
        ("group.min.session.timeout.ms", 6000),
        ("group.max.session.timeout.ms", 1800000),
        ("group.consumer.session.timeout.ms", 45000),
        ("group.consumer.assignors", ("uniform", "range")),
        ("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams")),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default


def test_the_migration_policy_does_not_mind_case():
    """Kafka accepts any case."""
    assert _ROWS["group.consumer.migration.policy"].parse("Upgrade") == "Upgrade"
