"""The controller, for the other rooms: every command is a function from an image to a `Decision`.

Commands about many things are decided in steps, too, under names in -ing: a generator that yields between two things.
The caller appends a decision's records to the metadata log as `batches` says, syncs them, applies them, and then answers.
The controller of one broker registers it with `register_broker`, which unfences it at once; the active controller of
many with `registering`, and then it hears heartbeats.
"""

from __future__ import annotations

from stratalog.metadata.controller.activation import activation
from stratalog.metadata.controller.alter_partition import Member, Proposal, ProposalAnswer, altering_partitions
from stratalog.metadata.controller.assign_replicas import Placed, assigning_replicas_to_directories
from stratalog.metadata.controller.broker_changes import forgetting_broker
from stratalog.metadata.controller.broker_heartbeats import BrokerHeartbeats, Heartbeat
from stratalog.metadata.controller.broker_probes import BrokerProbes, Gone, Look, Probe, Probed
from stratalog.metadata.controller.broker_registration import (
    BrokerRegistration,
    ControllerRegistration,
    register_controller,
    registering,
)
from stratalog.metadata.controller.brokers import (
    BrokerStart,
    ProducerIdBlock,
    allocate_producer_ids,
    check_broker_epoch,
    fence_broker,
    register_broker,
    unregistering_broker,
)
from stratalog.metadata.controller.cluster_view import ClusterView, topic_settings
from stratalog.metadata.controller.configs import (
    ConfigChange,
    ConfigOperation,
    ConfigRules,
    altering_configs,
    incremental_alter_configs,
    legacy_alter_configs,
    replacing_configs,
)
from stratalog.metadata.controller.elections import (
    ElectionResults,
    ElectionType,
    balancing_leaders,
    electing_leaders,
    electing_missing,
    electing_uncleanly,
)
from stratalog.metadata.controller.features import FeatureUpdate, UpgradeType, kraft_version_wanted, update_features
from stratalog.metadata.controller.heartbeat_commands import (
    HeartbeatAnswer,
    answering_heartbeat,
    fencing_silent_brokers,
)
from stratalog.metadata.controller.reassign_partitions import Move, reassigning_partitions
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
    "BrokerHeartbeats",
    "BrokerProbes",
    "BrokerRegistration",
    "BrokerStart",
    "ClusterView",
    "ConfigChange",
    "ConfigOperation",
    "ConfigRules",
    "ControllerRegistration",
    "CreatedTopic",
    "Decision",
    "ElectionResults",
    "ElectionType",
    "Failure",
    "FeatureUpdate",
    "Gone",
    "Heartbeat",
    "HeartbeatAnswer",
    "Look",
    "Member",
    "Move",
    "NewPartitions",
    "NewTopic",
    "Placed",
    "Probe",
    "Probed",
    "ProducerIdBlock",
    "Proposal",
    "ProposalAnswer",
    "TopicRules",
    "UpgradeType",
    "activation",
    "allocate_producer_ids",
    "altering_configs",
    "altering_partitions",
    "answering_heartbeat",
    "assigning_replicas_to_directories",
    "balancing_leaders",
    "check_broker_epoch",
    "create_partitions",
    "create_topics",
    "creating_partitions",
    "creating_topics",
    "delete_topics",
    "deleting_topics",
    "electing_leaders",
    "electing_missing",
    "electing_uncleanly",
    "fence_broker",
    "fencing_silent_brokers",
    "forgetting_broker",
    "incremental_alter_configs",
    "kraft_version_wanted",
    "legacy_alter_configs",
    "new_partitions",
    "reassigning_partitions",
    "register_broker",
    "register_controller",
    "registering",
    "replacing_configs",
    "resolve_topic",
    "topic_settings",
    "unregistering_broker",
    "update_features",
]
