"""Settings of one group."""

import pytest

from stratalog.metadata.settings.catalogue.group_level import GROUP_SETTINGS

_ROWS = {row.name: row for row in GROUP_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("consumer.session.timeout.ms", 45000),
        ("consumer.heartbeat.interval.ms", 5000),
        ("share.auto.offset.reset", "latest"),
        ("share.isolation.level", "read_uncommitted"),
        ("streams.num.standby.replicas", 0),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka's reference."""
    assert _ROWS[name].default == default


def test_numbers_fall_back_to_the_broker_setting_with_group_before_the_name():
    """consumer.session.timeout.ms is group.consumer.session.timeout.ms."""
    for name, row in _ROWS.items():
        assert [synonym.name for synonym in row.synonyms] in ([], [f"group.{name}"])
    assert _ROWS["consumer.session.timeout.ms"].synonyms
