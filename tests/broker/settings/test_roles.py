"""Listeners of a node by role, and the address of its controller."""

from __future__ import annotations

import pytest

from stratalog.broker.settings.listeners import ListenerError
from stratalog.broker.settings.roles import controller_address, node_listeners, told_controllers
from stratalog.metadata.settings.by_name import definitions
from stratalog.metadata.settings.cluster_roles import cluster_roles


def found(listeners, advertised="", *, protocol_map="PLAINTEXT:PLAINTEXT", given=False, voters="", names="CONTROLLER"):
    """The node and its listeners."""
    values = {name: row.default for name, row in definitions().items()}
    for name, text in (("controller.quorum.voters", voters), ("controller.listener.names", names)):
        values[name] = definitions()[name].parse(text)
    node = cluster_roles(values, 1)
    return node, node_listeners(
        node,
        listeners=[one for one in listeners.split(",") if one],
        advertised=[one for one in advertised.split(",") if one],
        protocol_map=protocol_map,
        map_is_given=given,
        host_name="me",
    )


def test_listeners_are_divided_by_role():
    """Clients never get the address of a controller."""
    _, parts = found("PLAINTEXT://:9092,CONTROLLER://:9093", "PLAINTEXT://p:1,CONTROLLER://c:2")
    assert [str(one) for one in parts.served] == ["PLAINTEXT://:9092"]
    assert [str(one) for one in parts.advertised] == ["PLAINTEXT://p:1"]
    assert [str(one) for one in parts.controllers] == ["CONTROLLER://:9093"]
    assert [str(one) for one in parts.advertised_controllers] == ["CONTROLLER://c:2"]
    assert parts.names.listeners == parts.names.advertised == ("PLAINTEXT", "CONTROLLER")


@pytest.mark.parametrize(
    ("listeners", "advertised", "voters", "address"),
    [
        ("PLAINTEXT://:9092", "", "", None),
        ("CONTROLLER://host:9093", "", "", ("host", 9093)),
        ("CONTROLLER://:9093", "", "", ("localhost", 9093)),
        ("CONTROLLER://0.0.0.0:9093", "", "", ("localhost", 9093)),
        ("CONTROLLER://:9093", "", "1@voter:7,2@b:8", ("voter", 7)),
        ("CONTROLLER://:9093", "", "2@b:8,3@c:9", ("localhost", 9093)),
        ("CONTROLLER://host:9093", "", "1@voter:7", ("host", 9093)),
        ("PLAINTEXT://:9092,CONTROLLER://:9093", "CONTROLLER://told:1", "1@voter:7", ("told", 1)),
        ("PLAINTEXT://:9092,CONTROLLER://:9093", "PLAINTEXT://told:1", "", ("localhost", 9093)),
    ],
)
def test_others_reach_a_controller_where_kafka_says(listeners, advertised, voters, address):
    """The order is: advertised, the listener's own host, the list of voters, localhost."""
    assert controller_address(*found(listeners, advertised, voters=voters)) == address


def test_every_listener_of_a_controller_is_named_in_the_order_of_the_names():
    """Registrations and voters name all of them; those that the node does not have are left out."""
    listeners, voters = "PLAINTEXT://:9092,A://a:1,B://:2,C://:3", "1@voter:7"
    node, parts = found(listeners, "PLAINTEXT://me:9092,C://c:4", names="C,B,X,A", voters=voters)
    assert [str(one) for one in told_controllers(node, parts)] == ["C://c:4", "B://voter:7", "A://a:1"]
    assert told_controllers(*found("PLAINTEXT://:9092")) == ()


def test_the_first_name_is_the_one_that_others_use():
    """Others may serve tools."""
    node, parts = found("A://a:1,B://b:2", names="B,A")
    assert controller_address(node, parts) == ("b", 2)


def test_a_map_that_is_given_must_name_the_controllers_listener():
    """Without a map it is PLAINTEXT."""
    assert "CONTROLLER" in found("CONTROLLER://:1")[1].names.with_protocol
    with pytest.raises(ListenerError, match="no security protocol is defined for listener CONTROLLER"):
        found("CONTROLLER://:1", given=True)
