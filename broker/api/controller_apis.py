"""The APIs on a listener of controllers, a line each; ``ApiVersions`` is computed from them there.

The keys are Kafka's, as far as there are handlers: 1 17-20 29-33 36-41 43-46 49-60 62-64 67 70 73 80-82. Those from 38 to 41
(delegation tokens) are not served. Rows that brokers have as well are the same, except that only the active controller
decides, and that it cannot refuse settings of brokers other than itself.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from stratalog.broker.api import (
    add_raft_voter,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    api_versions,
    assign_replicas_to_dirs,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_quorum,
    describe_user_scram_credentials,
    elect_leaders,
    end_quorum_epoch,
    envelope,
    fetch_snapshot,
    incremental_alter_configs,
    list_partition_reassignments,
    raft_fetch,
    remove_raft_voter,
    sasl_authenticate,
    sasl_handshake,
    unregister_broker,
    update_features,
    update_raft_voter,
    vote,
)
from stratalog.broker.api.controller_view import Context
from stratalog.broker.requests.dispatch import Api, Pending
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.schema import Message

__all__ = ["CONTROLLER_APIS"]


def _decided(api: Api[Any]) -> Api[Any]:
    """The row of an API that the active controller answers, and no other one."""

    def handle(context: Context, request: Any) -> Message | Pending | None:
        if not context.broker.quorum.is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This controller is not the active one.")
        return api.handle(context, request)

    return replace(api, handle=handle)


CONTROLLER_APIS: Final[tuple[Api[Any], ...]] = (
    raft_fetch.API,
    sasl_handshake.API,
    api_versions.API,
    _decided(create_topics.API),
    _decided(delete_topics.API),
    describe_acls.API,
    _decided(create_acls.API),
    _decided(delete_acls.API),
    describe_configs.API,
    _decided(alter_configs.CONTROLLER_API),
    sasl_authenticate.API,
    _decided(create_partitions.API),
    _decided(elect_leaders.API),
    _decided(incremental_alter_configs.CONTROLLER_API),
    _decided(alter_partition_reassignments.API),
    _decided(list_partition_reassignments.API),
    _decided(alter_client_quotas.API),
    describe_user_scram_credentials.API,
    _decided(alter_user_scram_credentials.API),
    vote.API,
    begin_quorum_epoch.API,
    end_quorum_epoch.API,
    describe_quorum.API,
    alter_partition.API,
    _decided(update_features.API),
    envelope.API,
    fetch_snapshot.API,
    describe_cluster.CONTROLLER_API,
    broker_registration.API,
    broker_heartbeat.API,
    _decided(unregister_broker.API),
    allocate_producer_ids.API,
    controller_registration.API,
    assign_replicas_to_dirs.API,
    add_raft_voter.API,
    remove_raft_voter.API,
    update_raft_voter.API,
)
