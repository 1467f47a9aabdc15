"""Listener settings follow Kafka's rules."""

from __future__ import annotations

import pytest

from stratalog.broker.settings.listeners import (
    Listener,
    ListenerError,
    SecurityProtocol,
    advertised_listeners,
    check_ports,
    parse_listeners,
    parse_protocol_map,
)

PLAIN = SecurityProtocol.PLAINTEXT
PROTOCOLS = {"PLAINTEXT": PLAIN, "CONTROLLER": PLAIN, "EXTERNAL": SecurityProtocol.SASL_SSL}


def test_a_stock_list_becomes_listeners() -> None:
    """Names are upper-cased, hosts may be empty or IPv6, order is kept."""
    found = parse_listeners("PLAINTEXT://:9092, controller://[::1]:9093,External://kafka-1.example:0", PROTOCOLS)
    assert found == [
        Listener("PLAINTEXT", PLAIN, "", 9092),
        Listener("CONTROLLER", PLAIN, "::1", 9093),
        Listener("EXTERNAL", SecurityProtocol.SASL_SSL, "kafka-1.example", 0),
    ]
    assert [str(listener) for listener in found] == [
        "PLAINTEXT://:9092",
        "CONTROLLER://[::1]:9093",
        "EXTERNAL://kafka-1.example:0",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one listener"),
        ("PLAINTEXT:9092", "not NAME://HOST:PORT"),
        ("PLAINTEXT://host", "not NAME://HOST:PORT"),
        ("PLAINTEXT://:-1", "port -1"),
        ("PLAINTEXT://:65536", "port 65536"),
        ("INTERNAL://:9092", "no security protocol is defined for listener INTERNAL"),
        ("PLAINTEXT://:1,plaintext://:2", "PLAINTEXT is used twice"),
    ],
)
def test_a_wrong_listener_is_refused_with_the_reason(text: str, message: str) -> None:
    """The message names the setting and the entry."""
    with pytest.raises(ListenerError, match=f"listeners: .*{message}"):
        parse_listeners(text, PROTOCOLS)


def test_a_port_belongs_to_one_listener_or_to_both_address_families() -> None:
    """Any free port may be asked for twice; IPv4 and IPv6 may share a port."""
    check_ports(parse_listeners("PLAINTEXT://1.2.3.4:9092,CONTROLLER://[::1]:9092", PROTOCOLS))
    check_ports(parse_listeners("PLAINTEXT://:0,CONTROLLER://:0", PROTOCOLS))
    with pytest.raises(ListenerError, match="port 9092 is used by 2 listeners"):
        check_ports(parse_listeners("PLAINTEXT://1.2.3.4:9092,CONTROLLER://:9092", PROTOCOLS))


def test_the_map_names_protocols() -> None:
    """Names and protocols in any case; Kafka's own default parses."""
    assert parse_protocol_map("controller:plaintext, EXTERNAL:SASL_SSL") == {
        "CONTROLLER": PLAIN,
        "EXTERNAL": SecurityProtocol.SASL_SSL,
    }


@pytest.mark.parametrize("text", ["A", "A:", ":SSL", "A:TLS", "A:SSL,a:PLAINTEXT"])
def test_a_wrong_map_is_refused(text: str) -> None:
    """Half an entry, an unknown protocol, or a name given twice."""
    with pytest.raises(ListenerError, match=r"^listener\.security\.protocol\.map: "):
        parse_protocol_map(text)


def test_without_advertised_listeners_the_listeners_are_advertised() -> None:
    """A listener on every interface is advertised under the machine's name."""
    listeners = parse_listeners("PLAINTEXT://:9092,CONTROLLER://10.0.0.1:9093", PROTOCOLS)
    assert [str(one) for one in advertised_listeners(None, listeners, PROTOCOLS, "node-1")] == [
        "PLAINTEXT://node-1:9092",
        "CONTROLLER://10.0.0.1:9093",
    ]


def test_advertised_listeners_replace_addresses_by_name() -> None:
    """Only named listeners are advertised, under the address given; ports may repeat."""
    listeners = parse_listeners("PLAINTEXT://:9092,EXTERNAL://:9094", PROTOCOLS)
    found = advertised_listeners("PLAINTEXT://proxy:443,EXTERNAL://proxy:443", listeners, PROTOCOLS, "node-1")
    assert [str(one) for one in found] == ["PLAINTEXT://proxy:443", "EXTERNAL://proxy:443"]


@pytest.mark.parametrize("text", ["CONTROLLER://host:1", "PLAINTEXT://0.0.0.0:1", "PLAINTEXT://[::]:1"])
def test_an_address_no_client_can_use_is_not_advertised(text: str) -> None:
    """A name without listener, and the addresses that mean every interface."""
    listeners = parse_listeners("PLAINTEXT://:9092", PROTOCOLS)
    with pytest.raises(ListenerError, match=r"^advertised\.listeners: "):
        advertised_listeners(text, listeners, PROTOCOLS, "node-1")
