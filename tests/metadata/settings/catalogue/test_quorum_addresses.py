"""Addresses of the quorum as settings write them."""

from __future__ import annotations

import pytest

from stratalog.metadata.settings.by_name import definitions
from stratalog.metadata.settings.catalogue.quorum_addresses import (
    QuorumServer,
    QuorumServers,
    VoterAddress,
    VoterAddresses,
    parse_quorum_servers,
    parse_voter_addresses,
)
from stratalog.metadata.settings.catalogue.types import ConfigError


def test_voters_are_an_id_and_an_address():
    """An IPv6 address stands in brackets; the order is kept."""
    assert parse_voter_addresses(("2@host-b.example:9094", "1@[fe80::1%eth0]:9093", "3@0.0.0.0:0")) == (
        VoterAddress(2, "host-b.example", 9094),
        VoterAddress(1, "fe80::1%eth0", 9093),
        VoterAddress(3, "0.0.0.0", 0),
    )


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("a:9093", "Invalid configuration value for controller.quorum.voters. Each entry should be in the form"),
        ("1@a@b:9093", "Invalid configuration value for controller.quorum.voters"),
        ("x@a:9093", "Failed to parse voter ID as an integer from x"),
        ("@a:9093", "Failed to parse voter ID as an integer from "),
        ("9999999999@a:9093", "Failed to parse voter ID as an integer from 9999999999"),
        ("1@a", "Failed to parse host name and port from entry 1@a for the configuration controller.quorum.voters"),
        ("1@:9093", "Failed to parse host name and port from entry 1@:9093"),
        ("1@a b:9093", "Failed to parse host name and port"),
        ("1@a:70000", "has port 70000; ports go to 65535"),
    ],
)
def test_an_entry_that_is_no_voter_is_refused(entry, why):
    """The sentences are Kafka's."""
    with pytest.raises(ConfigError) as refused:
        definitions()["controller.quorum.voters"].parse(f"7@z:1,{entry}")
    assert why in str(refused.value)


def test_a_voter_with_two_addresses_is_refused():
    """Kafka takes the last one without a word; a mistyped id would then lose a voter."""
    with pytest.raises(ConfigError, match="names the voter 1 twice"):
        parse_voter_addresses(("1@a:1", "2@b:1", "1@c:1"))


def test_servers_are_addresses():
    """In their order."""
    assert parse_quorum_servers(("a:1", "[::1]:2")) == (QuorumServer("a", 1), QuorumServer("::1", 2))


@pytest.mark.parametrize("entry", ["a", ":1", "a:x", "1@a:1", "a:99999"])
def test_an_entry_that_is_no_server_is_refused(entry):
    """The message has the setting and the entry."""
    with pytest.raises(ConfigError, match=f"{entry}.*controller.quorum.bootstrap.servers|bootstrap.servers: {entry}"):
        definitions()["controller.quorum.bootstrap.servers"].parse(entry)


def test_null_is_not_a_list():
    """Both settings have an empty list as default."""
    for validator in (VoterAddresses(), QuorumServers()):
        validator("x", ())
        with pytest.raises(ConfigError):
            validator("x", None)
        assert "host:port" in str(validator)
