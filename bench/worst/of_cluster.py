"""Requests about brokers, partitions and users that ask for the most."""

from __future__ import annotations

from collections.abc import Sequence

from bench.worst.worst import ELEMENTS, Add
from stratalog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData
from stratalog.wire.messages.alter_client_quotas import EntityData as QuotaEntity
from stratalog.wire.messages.alter_client_quotas import EntryData as QuotaEntry
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from stratalog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from stratalog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest
from stratalog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from stratalog.wire.messages.describe_producers import DescribeProducersRequest
from stratalog.wire.messages.describe_producers import TopicRequest as ProducersTopic
from stratalog.wire.messages.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic
from stratalog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from stratalog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from stratalog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from stratalog.wire.messages.sasl_handshake import SaslHandshakeRequest
from stratalog.wire.messages.unregister_broker import UnregisterBrokerRequest
from stratalog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

__all__ = ["add_cluster"]


def add_cluster(add: Add, groups: Sequence[str], half: Sequence[str]) -> None:
    """Those about the cluster, its brokers and users."""
    _partitions(add, half)
    _users(add, groups, half)


def _partitions(add: Add, half: Sequence[str]) -> None:
    add("all partitions", DescribeLogDirsRequest(topics=None))
    add(
        "4,900 partitions",
        AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path="/nowhere", topics=[AlterReplicaLogDirTopic(name=name, partitions=[0]) for name in half]
                )
            ]
        ),
    )
    add(
        "4,900 partitions",
        AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=0, replicas=None)])
                for name in half
            ]
        ),
    )
    add("all", ListPartitionReassignmentsRequest(topics=None))
    add(
        "4,900 partitions",
        ElectLeadersRequest(
            election_type=0, topic_partitions=[TopicPartitions(topic=name, partitions=[0]) for name in half]
        ),
    )
    add("all partitions", ElectLeadersRequest(election_type=0, topic_partitions=None))
    add(
        "4,900 partitions",
        DescribeProducersRequest(topics=[ProducersTopic(name=name, partition_indexes=[0]) for name in half]),
    )


def _users(add: Add, groups: Sequence[str], half: Sequence[str]) -> None:
    add(
        "all",
        DescribeClientQuotasRequest(
            components=[ComponentData(entity_type="user", match_type=2, match=None)], strict=False
        ),
    )
    add(
        "validates 3,300 users",
        AlterClientQuotasRequest(
            entries=[
                QuotaEntry(
                    entity=[QuotaEntity(entity_type="user", entity_name=name)],
                    ops=[OpData(key="producer_byte_rate", value=1.0, remove=False)],
                )
                for name in groups[: ELEMENTS // 3 - 1]
            ],
            validate_only=True,
        ),
    )
    add("9,900 users", DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in groups]))
    add(
        "9,900 absent users",
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name=name, mechanism=1) for name in groups], upsertions=[]
        ),
    )
    add(
        "9,900 absent features",
        UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature=name, max_version_level=1) for name in groups], validate_only=True
        ),
    )
    add(
        "4,900 topics",
        DescribeQuorumRequest(
            topics=[
                RequestedTopic(topic_name=name, partitions=[RequestedPartition(partition_index=0)]) for name in half
            ]
        ),
    )
    add("the cluster", DescribeClusterRequest(include_cluster_authorized_operations=True), pipelined=1000)
    add("absent", UnregisterBrokerRequest(broker_id=99))
    add("all", ApiVersionsRequest(client_software_name="a", client_software_version="1"), pipelined=1000)
    add("nothing", SaslHandshakeRequest(mechanism="PLAIN"))
