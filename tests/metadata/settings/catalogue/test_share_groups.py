"""Broker settings of share and streams groups."""

import pytest

from stratalog.metadata.settings.catalogue.share_groups import SHARE_SETTINGS, STREAMS_SETTINGS

_ROWS = {row.name: row for row in (*SHARE_SETTINGS, *STREAMS_SETTINGS)}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("group.share.delivery.count.limit", 5),
        ("group.share.max.size", 200),
        ("group.share.partition.max.record.locks", 2000),
        ("share.coordinator.state.topic.num.partitions", 50),
        ("group.streams.session.timeout.ms", 45000),
        ("group.streams.max.standby.replicas", 2),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default


def test_none_of_them_has_effect_and_all_say_so():
    """Neither kind of group is served."""
    assert [name for name, row in _ROWS.items() if row.has_effect] == []
