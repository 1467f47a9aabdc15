"""Counting connections: those of clients, and those of brokers among themselves."""

from types import SimpleNamespace

import pytest

from stratalog.broker.network import connection_counts as counts_module
from stratalog.broker.network.connection_counts import ConnectionCounts, ServerLimits


class Door:
    """Connections that come to two listeners."""

    def __init__(self, limits, *listeners):
        self.counts = ConnectionCounts(listeners or ("BROKERS", "CLIENTS"), "BROKERS")
        self.limits = limits

    def come(self, listener, host="a", now=0.0):
        """The connection, or why it is one too many."""
        one = SimpleNamespace(host=host, listener=SimpleNamespace(name=listener), read_at=now)
        reason = self.counts.refusal(one, self.limits)
        if reason is None:
            self.counts.opened(one)
        return reason or one


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (ServerLimits(connections_max=9), "max.connections of 9 is reached"),
        (ServerLimits(connections_max=10, connections_reserved=2), "the last 2 connections"),
        (ServerLimits(connections_per_ip_max=9), "max.connections.per.ip of 9"),
        (ServerLimits(per_ip_overrides={"a": 9}), "max.connections.per.ip of 9"),
        (ServerLimits(connection_rate_max=9), "max.connection.creation.rate of 9"),
    ],
)
def test_clients_take_none_of_the_brokers_connections(limits, reason):
    """Their number does not matter, nor do their addresses. One that closes makes room for a client again."""
    door = Door(limits)
    come = [door.come("CLIENTS") for _ in range(20)]
    assert reason in come[-1]
    assert not isinstance(door.come("BROKERS"), str)
    door.counts.closed(come[0])
    if limits.connections_max > 10:
        assert not isinstance(door.come("CLIENTS", now=2.0), str)


def test_the_brokers_connections_count_for_the_descriptors():
    """Clients have what is left of all."""
    door = Door(ServerLimits(connections_max=3))
    assert not isinstance(door.come("BROKERS"), str)
    assert [isinstance(door.come("CLIENTS"), str) for _ in range(3)] == [False, False, True]


def test_brokers_have_a_bound_among_themselves(monkeypatch):
    """A stranger at their listener takes no descriptors without end; addresses have their bound there, too."""
    monkeypatch.setattr(counts_module, "_BROKER_CONNECTIONS_LEAST", 3)
    door = Door(ServerLimits(connections_max=1))
    assert [isinstance(door.come("BROKERS"), str) for _ in range(4)] == [False] * 3 + [True]
    assert "listener BROKERS" in door.come("BROKERS")
    door = Door(ServerLimits(connections_per_ip_max=1))
    assert [isinstance(door.come("BROKERS", host), str) for host in "aab"] == [False, True, False]


def test_a_flood_at_the_listener_of_brokers_leaves_room_for_addresses_with_few():
    """Clients may use it as well. A broker that comes late, and an administrator at either listener, get in."""
    door = Door(ServerLimits(connections_max=80, connections_reserved=4, connections_per_ip_max=40))
    come = [door.come("BROKERS", host) for host in "ab" for _ in range(40)]
    assert "the last 4 connections" in come[-1]
    assert not isinstance(door.come("BROKERS", "late"), str)
    assert not isinstance(door.come("CLIENTS", "administrator"), str)


def test_the_only_listener_is_not_apart():
    """Clients and brokers come by the same one: all are counted together."""
    door = Door(ServerLimits(connections_max=1), "BROKERS")
    assert not isinstance(door.come("BROKERS"), str)
    assert door.come("BROKERS") == "max.connections of 1 is reached"


def test_addresses_that_left_are_forgotten():
    """A stranger with many addresses leaves nothing behind."""
    door = Door(ServerLimits(connections_per_ip_max=1))
    for number in range(100):
        one = door.come("CLIENTS", str(number))
        door.come("CLIENTS", str(number))
        door.counts.closed(one)
    assert not door.counts._per_host
