"""Addresses of the metadata quorum in settings: ``id@host:port`` of voters and ``host:port`` of servers.

Source of form and sentences: Kafka's ``QuorumConfig``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.metadata.settings.catalogue.types import ConfigError, ConfigValue
from stratalog.wire.address import PORT_MAX

__all__ = [
    "QuorumServer",
    "QuorumServers",
    "VoterAddress",
    "VoterAddresses",
    "parse_quorum_servers",
    "parse_voter_addresses",
]

VOTERS: Final = "controller.quorum.voters"
SERVERS: Final = "controller.quorum.bootstrap.servers"

_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[0-9a-zA-Z%._:-]+)\]|(?P<host>[0-9a-zA-Z%._-]+)):(?P<port>[0-9]{1,9})")
_ID: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_ID_MAX: Final = (1 << 31) - 1


class VoterAddress(NamedTuple):
    """A static voter and the address of its controller listener."""

    node_id: int
    host: str
    port: int


class QuorumServer(NamedTuple):
    """A controller listener at which the quorum can be found."""

    host: str
    port: int


def parse_voter_addresses(entries: tuple[str, ...]) -> tuple[VoterAddress, ...]:
    """The voters of ``id@host:port`` entries, in their order. Raises `ConfigError`, also for an id that comes twice."""
    voters = tuple(map(_voter, entries))
    ids = [voter.node_id for voter in voters]
    for voter in voters:
        if ids.count(voter.node_id) > 1:
            raise ConfigError(f"{VOTERS} names the voter {voter.node_id} twice; give each node one address")
    return voters


def _voter(entry: str) -> VoterAddress:
    form = "Each entry should be in the form `{id}@{host}:{port}`."
    node_id, at, address = entry.partition("@")
    if not at or "@" in address:
        raise ConfigError(f"Invalid configuration value for {VOTERS}. {form}")
    if not _ID.fullmatch(node_id) or int(node_id) > _ID_MAX:
        raise ConfigError(f"Failed to parse voter ID as an integer from {node_id}")
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ConfigError(
            f"Failed to parse host name and port from entry {entry} for the configuration {VOTERS}. {form}"
        )
    return VoterAddress(int(node_id), found["v6"] or found["host"], _port(found["port"], entry, VOTERS))


def parse_quorum_servers(entries: tuple[str, ...]) -> tuple[QuorumServer, ...]:
    """The servers of ``host:port`` entries, in their order. Raises `ConfigError`."""
    servers = []
    for entry in entries:
        found = _ADDRESS.fullmatch(entry)
        if found is None:
            raise ConfigError(
                f"Failed to parse host name and port from {entry} for the configuration {SERVERS}. Each entry should be "
                'in the form "{host}:{port}"'
            )
        servers.append(QuorumServer(found["v6"] or found["host"], _port(found["port"], entry, SERVERS)))
    return tuple(servers)


def _port(text: str, entry: str, setting: str) -> int:
    if int(text) > PORT_MAX:
        raise ConfigError(f"{setting}: {entry} has port {text}; ports go to {PORT_MAX}")
    return int(text)


class VoterAddresses(Struct, frozen=True):
    """A list of ``id@host:port``; empty for a dynamic quorum."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` if ``value`` may not stand under ``name``."""
        if not isinstance(value, tuple):
            raise ConfigError.of(name, None)
        parse_voter_addresses(value)

    def __str__(self) -> str:
        return "id@host:port,…"


class QuorumServers(Struct, frozen=True):
    """A list of ``host:port``."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raise `ConfigError` if ``value`` may not stand under ``name``."""
        if not isinstance(value, tuple):
            raise ConfigError.of(name, None)
        parse_quorum_servers(value)

    def __str__(self) -> str:
        return "host:port,…"
