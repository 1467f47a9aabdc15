"""Broker settings of quotas."""

import pytest

from stratalog.metadata.settings.catalogue.quota import QUOTA_SETTINGS

_ROWS = {row.name: row for row in QUOTA_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("quota.window.num", 11),
        ("quota.window.size.seconds", 1),
        ("controller.quota.window.num", 11),
        ("client.quota.callback.class", None),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default
