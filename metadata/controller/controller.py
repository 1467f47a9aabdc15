"""The controller, for the other rooms: every command is a function from an image to a `Decision`.

Commands about many things are decided in steps, too, under names in -ing: a generator that yields between two things.
The caller appends a decision's records to the metadata log as one batch, syncs it, applies it, and then answers.
"""

from __future__ import annotations

from stratalog.metadata.controller.brokers import (
    BrokerStart,
    ProducerIdBlock,
    allocate_producer_ids,
    check_broker_epoch,
    fence_broker,
    register_broker,
    unregister_broker,
)
from stratalog.metadata.controller.configs import (
    ConfigChange,
    ConfigOperation,
    ConfigRules,
    altering_configs,
    incremental_alter_configs,
    legacy_alter_configs,
    replacing_configs,
)
from stratalog.metadata.controller.elections import ElectionResults, ElectionType, elect_leaders
from stratalog.metadata.controller.features import FeatureUpdate, UpgradeType, update_features
from stratalog.metadata.controller.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    TopicRules,
    create_partitions,
    create_topics,
    creating_partitions,
    creating_topics,
    delete_topics,
    deleting_topics,
    new_partitions,
    resolve_topic,
)
from stratalog.metadata.image.decision import Decision, Failure

__all__ = [
    "BrokerStart",
    "ConfigChange",
    "ConfigOperation",
    "ConfigRules",
    "CreatedTopic",
    "Decision",
    "ElectionResults",
    "ElectionType",
    "Failure",
    "FeatureUpdate",
    "NewPartitions",
    "NewTopic",
    "ProducerIdBlock",
    "TopicRules",
    "UpgradeType",
    "allocate_producer_ids",
    "altering_configs",
    "check_broker_epoch",
    "create_partitions",
    "create_topics",
    "creating_partitions",
    "creating_topics",
    "delete_topics",
    "deleting_topics",
    "elect_leaders",
    "fence_broker",
    "incremental_alter_configs",
    "legacy_alter_configs",
    "new_partitions",
    "register_broker",
    "replacing_configs",
    "resolve_topic",
    "unregister_broker",
    "update_features",
]
