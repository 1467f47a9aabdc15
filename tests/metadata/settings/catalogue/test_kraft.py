"""Broker settings of roles and quorum."""

import pytest

from stratalog.metadata.settings.catalogue.kraft import KRAFT_SETTINGS

_ROWS = {row.name: row for row in KRAFT_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("broker.id", -1),
        ("broker.session.timeout.ms", 9000),
        ("controller.quorum.append.linger.ms", 25),
        ("metadata.log.max.record.bytes.between.snapshots", 20971520),
        ("metadata.log.max.snapshot.interval.ms", 3600000),
        ("metadata.log.segment.bytes", 1073741824),
        ("metadata.max.retention.bytes", 104857600),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default


def test_a_broker_without_a_file_knows_its_identity():
    """Ours: Kafka demands node id, roles and the controllers' listener."""
    assert _ROWS["node.id"].default == 1
    assert _ROWS["process.roles"].default == ("broker", "controller")
    assert _ROWS["controller.listener.names"].default == ("CONTROLLER",)
