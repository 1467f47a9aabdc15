"""Broker settings of the process and of requests."""

import pytest

from stratalog.metadata.settings.catalogue.server import SERVER_SETTINGS

_ROWS = {row.name: row for row in SERVER_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("auto.create.topics.enable", True),
        ("delete.topic.enable", True),
        ("num.partitions", 1),
        ("default.replication.factor", 1),
        ("fetch.max.bytes", 57671680),
        ("num.io.threads", 8),
        ("num.network.threads", 3),
        ("queued.max.requests", 500),
        ("max.request.partition.size.limit", 2000),
        ("request.timeout.ms", 30000),
        ("authorizer.class.name", ""),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default


def test_thread_pools_say_why_they_have_no_effect():
    """The names are accepted, so that a file of Kafka's starts, with the reason."""
    for name in ("num.io.threads", "num.network.threads", "background.threads"):
        assert "event loop" in (_ROWS[name].why_not or "")
