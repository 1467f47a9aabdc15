"""Whether other nodes may join one whose settings name only itself.

A process that is broker and controller and names no other node is a cluster by itself, and needs no listener of a controller:
it begins with an empty directory. Brokers and further controllers may join if its directory was formatted as that of a
voter, as Kafka's documentation has it (``format --standalone``), and if it has a controller's listener.
"""

from __future__ import annotations

import logging
from pathlib import Path

from msgspec.structs import replace

from stratalog.broker.settings.config import BrokerConfig
from stratalog.broker.settings.listeners import SecurityProtocol
from stratalog.metadata.formatting.node_format import BOOTSTRAP_SNAPSHOT
from stratalog.metadata.quorum.bootstrap import BOOTSTRAP_CHECKPOINT
from stratalog.metadata.quorum.quorum_state import FILE_NAME, parse_quorum_state
from stratalog.metadata.settings.cluster_roles import ListenerNames, role_problems
from stratalog.wire.errors import Corrupt

__all__ = ["joinable"]

log = logging.getLogger(__name__)


def joinable(config: BrokerConfig) -> BrokerConfig:
    """The settings of a node, which has peers if others may join it; a warning says why they cannot."""
    roles = config.roles
    if roles.has_peers or not config.controller_listeners or not _is_formatted_voter(config):
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
    log.warning("no other node can join this one, which was formatted as a voter: %s", "; ".join(problems))
    return config


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
