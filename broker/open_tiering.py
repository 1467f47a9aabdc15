"""The archive side of a broker, made of what the broker has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stratalog.broker.tiering import Tiering
from stratalog.broker.timelines import controller_ports
from stratalog.broker.unified_log import UnifiedLog
from stratalog.tier.commands import WriteProjection
from stratalog.tier.projection import topic_projection

if TYPE_CHECKING:
    from stratalog.broker.node import Node

__all__ = ["open_tiering"]


def open_tiering(node: Node) -> Tiering:
    """Inside the running loop; the metadata need not be read yet."""

    def topic_written(unified: UnifiedLog) -> WriteProjection:
        name = unified.topic_partition.topic
        count, configs = len(node.image.topics.by_name[name].partitions), node.image.topic_configs(name)
        return topic_projection(name, unified.topic_id, partitions=count, configs=configs, cluster_id=node.cluster_id)

    return Tiering(
        node.config,
        clock=node.clock,
        metrics=node.metrics,
        dice=node.dice,
        directories=node.directories,
        incarnation=lambda: node.image.incarnation,
        controller=controller_ports(node),
        topic_written=topic_written,
        wake_reader=node.purgatory.check,
    )
