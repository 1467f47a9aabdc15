"""Settings that change while the broker runs: those of its file under those of the metadata log (KIP-226).

Topics take their defaults from the image themselves. Everything else asks the `Node` for its settings when it needs a
value, so that it is enough to put others there. The server's limits, the upload rate and groups hold on to values, and
the node hands them new ones.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.settings.configs import ConfigSource, resolve_broker_config

__all__ = ["effective_config"]

_DYNAMIC: Final = (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)


def effective_config(given: BrokerConfig, image: ClusterImage, former: BrokerConfig | None = None) -> BrokerConfig:
    """The settings that the broker was started with, with those of the image in front of them.

    A setting whose text this release cannot read keeps the value that it has in ``former``.
    """
    mine = image.configs.of(ConfigResource.broker(given.node_id))
    entries = resolve_broker_config(given.static, mine, image.configs.of(CLUSTER_DEFAULT))
    changed = {name: entry.value for name, entry in entries.items() if entry.source in _DYNAMIC}
    if former is not None:
        changed |= {name: former.values[name] for name, entry in entries.items() if entry.is_unreadable}
    return replace(given, values={**given.values, **changed}) if changed else given
