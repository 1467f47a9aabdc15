"""Whether a node whose settings name no second server has peers all the same.

A process that is broker and controller and names no other node is a cluster by itself, and needs no listener of a controller:
it begins with an empty directory. Brokers and further controllers may join if its directory was formatted as that of a
voter, as Kafka's documentation has it (``format --standalone``), and if it has a controller's listener. One whose only
server is another node joins that one.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from stratalog.broker.settings.config import BrokerConfig, ConfigRefused
from stratalog.broker.settings.listeners import SecurityProtocol
from stratalog.broker.settings.roles import EVERY_INTERFACE
from stratalog.metadata.formatting.node_format import BOOTSTRAP_SNAPSHOT
from stratalog.metadata.quorum.bootstrap import BOOTSTRAP_CHECKPOINT
from stratalog.metadata.quorum.quorum_state import FILE_NAME, parse_quorum_state
from stratalog.metadata.settings.cluster_roles import ListenerNames, role_problems
from stratalog.wire.errors import Corrupt

__all__ = ["joinable"]

log = logging.getLogger(__name__)

_OF_THIS_HOST = ("localhost", "127.0.0.1", "::1")


def joinable(config: BrokerConfig, host_name: Callable[[], str] = socket.gethostname) -> BrokerConfig:
    """The settings of a node, which has peers if it joins others or others may join it; a warning says why they cannot.

    Raises `ConfigRefused` for a node that cannot join the one that it names.
    """
    roles = config.roles
    if roles.has_peers:
        return config
    joins = _names_another(config, host_name)
    if not joins and not (config.controller_listeners and _is_formatted_voter(config)):
        return config
    found = replace(config, roles=replace(roles, is_joinable=True))
    names = tuple(one.name for one in (*config.listeners, *config.controller_listeners))
    told = tuple(one.name for one in (*config.advertised_listeners, *config.told_controller_listeners))
    problems = role_problems(
        found.roles, ListenerNames(listeners=names, advertised=told, with_protocol=frozenset(names))
    )
    problems += [
        f"listener {one} needs {one.protocol}: in this release only PLAINTEXT is served"
        for one in config.controller_listeners
        if one.protocol is not SecurityProtocol.PLAINTEXT
    ]
    if not problems:
        return found
    if joins:
        raise ConfigRefused(problems)
    log.warning("no other node can join this one, which was formatted as a voter: %s", "; ".join(problems))
    return config


def _names_another(config: BrokerConfig, host_name: Callable[[], str]) -> bool:
    """Whether the only server of the quorum is not this node.

    A server at a port of this node may be the node itself, by another of its names: it is if its listener is on every
    interface and is not advertised, or it has none, and the server has the name of this host, with or without a domain.
    """
    servers = config.roles.quorum.bootstrap_servers
    bound = {one.port: one.host for one in config.controller_listeners}
    if not servers or 0 in bound:
        return False
    server, told = servers[0], {(one.host, one.port) for one in config.told_controller_listeners}
    if (server.host, server.port) in told or bound.get(server.port) == server.host:
        return False
    host, mine = server.host.lower(), bound.get(server.port) if bound else ""
    if mine not in EVERY_INTERFACE:
        return not {host, mine} <= {*_OF_THIS_HOST}
    advertised = {told_host for told_host, port in told if port == server.port} - {"localhost"}
    names = {*_OF_THIS_HOST, host_name().partition(".")[0].lower()}
    return bool(advertised) or (host.partition(".")[0] not in names and host not in names)


def _is_formatted_voter(config: BrokerConfig) -> bool:
    """Whether the directory of the metadata was formatted as that of a voter, dynamic or listed in the settings."""
    directory = config.metadata_log_dir
    if config.roles.quorum.voters:
        return Path(directory, BOOTSTRAP_CHECKPOINT).exists()
    snapshot = Path(directory, BOOTSTRAP_SNAPSHOT)
    if snapshot.exists():
        return True
    state = snapshot.with_name(FILE_NAME)  # the snapshot is removed when there are later ones
    try:
        return parse_quorum_state(state.read_bytes(), str(state)).data_version == 1
    except (Corrupt, OSError):
        return False  # the quorum says what is wrong
