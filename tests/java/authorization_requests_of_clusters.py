"""A request or more of every API of the cluster as a whole, as in authorization_requests.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stratalog.wire.messages import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    describe_user_scram_credentials,
    elect_leaders,
    list_config_resources,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)
from stratalog.wire.schema import Message

__all__ = ["REQUESTS"]

Make = Callable[[int, Mapping[str, bytes]], Message | None]

SECRET, ABSENT = "app-secret", "app-absent"


def _acl(kind: type[Any]) -> Any:
    return kind(
        resource_type_filter=2, resource_name_filter="no-such", pattern_type_filter=3, principal_filter=None,
        host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip


def _always(make: Callable[[], Message]) -> Make:
    return lambda version, ids: make()


REQUESTS: dict[int, tuple[Make, ...]] = {
    29: (_always(lambda: _acl(describe_acls.DescribeAclsRequest)),),
    30: (_always(lambda: create_acls.CreateAclsRequest(creations=[])),),
    31: (_always(lambda: delete_acls.DeleteAclsRequest(filters=[_acl(delete_acls.DeleteAclsFilter)])),),
    34: (
        _always(
            lambda: alter_replica_log_dirs.AlterReplicaLogDirsRequest(
                dirs=[
                    alter_replica_log_dirs.AlterReplicaLogDir(
                        path="/no/such",
                        topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name=ABSENT, partitions=[0])],
                    )
                ]
            )
        ),
    ),
    35: (
        _always(
            lambda: describe_log_dirs.DescribeLogDirsRequest(
                topics=[describe_log_dirs.DescribableLogDirTopic(topic=ABSENT, partitions=[0])]
            )
        ),
    ),
    43: (
        _always(
            lambda: elect_leaders.ElectLeadersRequest(
                topic_partitions=[elect_leaders.TopicPartitions(topic=SECRET, partitions=[0])]
            )
        ),
    ),
    45: (
        _always(
            lambda: alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                topics=[
                    alter_partition_reassignments.ReassignableTopic(
                        name=ABSENT,
                        partitions=[
                            alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=[1])
                        ],
                    )
                ]
            )
        ),
    ),
    46: (_always(list_partition_reassignments.ListPartitionReassignmentsRequest),),
    48: (_always(lambda: describe_client_quotas.DescribeClientQuotasRequest(components=[], strict=False)),),
    49: (
        _always(
            lambda: alter_client_quotas.AlterClientQuotasRequest(
                entries=[
                    alter_client_quotas.EntryData(
                        entity=[alter_client_quotas.EntityData(entity_type="user", entity_name="u")], ops=[]
                    )
                ],
                validate_only=True,
            )
        ),
    ),
    50: (
        _always(
            lambda: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
                users=[describe_user_scram_credentials.UserName(name="u")]
            )
        ),
    ),
    51: (
        _always(
            lambda: alter_user_scram_credentials.AlterUserScramCredentialsRequest(
                deletions=[alter_user_scram_credentials.ScramCredentialDeletion(name="u", mechanism=1)], upsertions=[]
            )
        ),
    ),
    55: (
        _always(
            lambda: describe_quorum.DescribeQuorumRequest(
                topics=[
                    describe_quorum.RequestedTopic(
                        topic_name="__cluster_metadata",
                        partitions=[describe_quorum.RequestedPartition(partition_index=0)],
                    )
                ]
            )
        ),
    ),
    57: (_always(lambda: update_features.UpdateFeaturesRequest(feature_updates=[], validate_only=True)),),
    60: (
        _always(lambda: describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)),
        _always(lambda: describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=False)),
    ),
    64: (_always(lambda: unregister_broker.UnregisterBrokerRequest(broker_id=99)),),
    74: (_always(list_config_resources.ListConfigResourcesRequest),),
}
"""By API key. A function of the version and of topics' ids; None where the version cannot say it."""
