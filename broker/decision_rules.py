"""The rules by which a node's controller judges new topics and settings, from the settings of the node itself."""

from __future__ import annotations

from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.controller.controller import ConfigRules, TopicRules
from stratalog.metadata.settings.configs import ConfigResolver

__all__ = ["config_rules", "topic_rules"]


def topic_rules(config: BrokerConfig, resolver: ConfigResolver) -> TopicRules:
    """The rules that new topics must keep."""
    return TopicRules(
        resolver=resolver,
        default_partition_count=config.integer("num.partitions"),
        default_replication_factor=config.integer("default.replication.factor"),
        tiering_enabled=config.tiering_enabled,
    )


def config_rules(config: BrokerConfig, resolver: ConfigResolver) -> ConfigRules:
    """The rules that new settings must keep."""
    return ConfigRules(resolver=resolver, static=config.static, tiering_enabled=config.tiering_enabled)
