"""The process at the other end of a connection."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from stratalog.broker.local_cluster.connection_owners import owner_of

CLIENT = "import socket, sys; held = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); sys.stdin.read()"


@pytest.fixture
def server():
    """A listener, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, listener.getsockname()[1]


def test_a_connection_belongs_to_the_process_that_made_it(server):
    """The result is the key of that process, and None for all others."""
    listener, port = server
    with (
        subprocess.Popen([sys.executable, "-c", CLIENT, str(port)], stdin=subprocess.PIPE) as child,
        socket.create_connection(("127.0.0.1", port)) as mine,
    ):
        found = {}
        for _ in range(2):
            accepted, (_, client_port) = listener.accept()
            with accepted:
                found[client_port] = owner_of(client_port, port, {7: child.pid, 8: os.getpid()})
                assert owner_of(client_port, port, {}) is None
        assert found.pop(mine.getsockname()[1]) == 8
        assert list(found.values()) == [7]
        child.stdin.close()


def test_a_connection_that_has_ended_and_a_process_that_has_gone_have_no_owner(server):
    """Neither is an error."""
    listener, port = server
    with subprocess.Popen([sys.executable, "-c", "pass"]) as gone:
        pass
    with socket.create_connection(("127.0.0.1", port)) as mine:
        client_port = mine.getsockname()[1]
        assert owner_of(client_port, port, {1: gone.pid}) is None
        assert owner_of(client_port, port, {1: gone.pid, 2: os.getpid()}) == 2
    listener.accept()[0].close()
    assert owner_of(client_port, port, {2: os.getpid()}) is None


def test_a_socket_that_takes_ipv6_too_has_an_owner(server):
    """Java connects with such sockets, also to an IPv4 address."""
    listener, port = server
    with socket.socket(socket.AF_INET6) as mine:
        mine.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        mine.connect(("::ffff:127.0.0.1", port))
        accepted, (_, client_port) = listener.accept()
        with accepted:
            assert owner_of(client_port, port, {5: os.getpid()}) == 5
