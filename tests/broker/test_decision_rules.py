"""The rules of a node's controller, from its settings."""

from stratalog.broker.decision_rules import config_rules, topic_rules
from stratalog.broker.settings.config import load_config
from stratalog.metadata.settings.configs import ConfigResolver


def test_the_rules_are_those_of_the_settings():
    """Defaults of new topics, the static settings, and whether topics may be tiered."""
    config = load_config(
        assignments=[
            "log.dirs=/d",
            "num.partitions=5",
            "default.replication.factor=3",
            "remote.log.storage.system.enable=true",
        ]
    )
    resolver = ConfigResolver.for_topics(config.static, {}, {})
    rules = topic_rules(config, resolver)
    assert (rules.default_partition_count, rules.default_replication_factor, rules.tiering_enabled) == (5, 3, True)
    assert rules.resolver is resolver
    named = config_rules(config, resolver)
    assert (named.resolver, named.static, named.tiering_enabled) == (resolver, config.static, True)
