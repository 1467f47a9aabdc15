"""Broker settings of transactions."""

import pytest

from stratalog.metadata.settings.catalogue.transaction import TRANSACTION_SETTINGS

_ROWS = {row.name: row for row in TRANSACTION_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("transaction.max.timeout.ms", 900000),
        ("transaction.state.log.num.partitions", 50),
        ("transactional.id.expiration.ms", 604800000),
        ("transaction.two.phase.commit.enable", False),
        ("transaction.partition.verification.enable", True),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default
