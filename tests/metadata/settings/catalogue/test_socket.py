"""Broker settings of sockets."""

import pytest

from stratalog.metadata.settings.catalogue.socket import SOCKET_SETTINGS

_ROWS = {row.name: row for row in SOCKET_SETTINGS}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("listeners", ("PLAINTEXT://:9092",)),
        ("advertised.listeners", None),
        ("connections.max.idle.ms", 600000),
        ("max.connections", 2147483647),
        ("max.connections.per.ip", 2147483647),
        ("socket.listen.backlog.size", 50),
        ("socket.receive.buffer.bytes", 102400),
        ("socket.send.buffer.bytes", 102400),
        ("socket.request.max.bytes", 104857600),
    ],
)
def test_defaults_are_kafkas(name, default):
    """The values of Kafka 4.3's reference."""
    assert _ROWS[name].default == default
