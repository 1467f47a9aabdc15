"""Who has hung up while nothing is read."""

import asyncio
import socket
import time
from types import SimpleNamespace

import pytest

from stratalog.broker.hanging_up import has_hung_up


def transport_of(connection):
    return SimpleNamespace(get_extra_info=lambda _name: connection)


@pytest.mark.parametrize("unread", [b"", b"bytes that were sent before"])
def test_an_end_is_seen_past_unread_bytes(unread):
    """Reading would find the bytes first; the state of the connection says it at once."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(unread)
            assert not has_hung_up(transport_of(accepted))
            client.close()
            until = time.monotonic() + 10
            while not has_hung_up(transport_of(accepted)):
                assert time.monotonic() < until
                time.sleep(0.001)


def test_what_is_no_tcp_connection_has_not_hung_up():
    """A pipe or a socket of Unix has no such state; its end is seen when it is read."""
    one, other = socket.socketpair()
    with one:
        other.close()
        assert not has_hung_up(transport_of(one))
    assert not has_hung_up(transport_of(None))
    assert not has_hung_up(asyncio.Transport())
