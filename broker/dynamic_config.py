"""Settings that change while the broker runs: those of its file under those of the metadata log (KIP-226).

Topics take their defaults from the image themselves. Everything else reads ``node.config`` when it needs a value, so
it is enough to put another one there; what holds on to values is told: the server's limits, the upload rate, groups.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from stratalog.broker.config import BrokerConfig
from stratalog.broker.network_limits import server_limits
from stratalog.metadata.configs import ConfigSource, resolve_broker_config
from stratalog.metadata.configs_image import CLUSTER_DEFAULT, ConfigResource
from stratalog.metadata.image import ClusterImage

if TYPE_CHECKING:
    from stratalog.broker.node import Node

__all__ = ["effective_config", "follow_settings"]

_DYNAMIC: Final = (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)


def effective_config(given: BrokerConfig, image: ClusterImage) -> BrokerConfig:
    """The settings that the broker was started with, with those of the image in front of them."""
    mine = image.configs.of(ConfigResource.broker(given.node_id))
    entries = resolve_broker_config(given.static, mine, image.configs.of(CLUSTER_DEFAULT))
    changed = {name: entry.value for name, entry in entries.items() if entry.source in _DYNAMIC}
    return replace(given, values={**given.values, **changed}) if changed else given


def follow_settings(node: Node, given: BrokerConfig, image: ClusterImage) -> None:
    """Put the settings of the image in force: for new connections, new uploads, and whoever asks next."""
    node.config = effective_config(given, image)
    node.server.limits = server_limits(node.config)
    node.tiering.config = node.config
    node.groups.follow_settings(node.config)
