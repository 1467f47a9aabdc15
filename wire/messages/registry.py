"""Every API that is declared, by key. An API exists because it stands here, not because it was imported."""

from __future__ import annotations

from typing import Final, NamedTuple

from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from stratalog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from stratalog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from stratalog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from stratalog.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from stratalog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from stratalog.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from stratalog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from stratalog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from stratalog.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from stratalog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from stratalog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from stratalog.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from stratalog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from stratalog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from stratalog.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from stratalog.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from stratalog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from stratalog.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from stratalog.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from stratalog.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from stratalog.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from stratalog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from stratalog.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from stratalog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from stratalog.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from stratalog.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from stratalog.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from stratalog.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from stratalog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from stratalog.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from stratalog.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from stratalog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from stratalog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from stratalog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from stratalog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from stratalog.wire.messages.fetch import FetchRequest, FetchResponse
from stratalog.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from stratalog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from stratalog.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from stratalog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from stratalog.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from stratalog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from stratalog.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from stratalog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from stratalog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from stratalog.wire.messages.metadata import MetadataRequest, MetadataResponse
from stratalog.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from stratalog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from stratalog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from stratalog.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from stratalog.wire.messages.produce import ProduceRequest, ProduceResponse
from stratalog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from stratalog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from stratalog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from stratalog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from stratalog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from stratalog.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from stratalog.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from stratalog.wire.messages.vote import VoteRequest, VoteResponse
from stratalog.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from stratalog.wire.schema import Message

__all__ = ["APIS", "ApiMessages"]


class ApiMessages(NamedTuple):
    """The two messages of one API."""

    request: type[Message]
    response: type[Message]


APIS: Final[dict[int, ApiMessages]] = {
    0: ApiMessages(ProduceRequest, ProduceResponse),
    1: ApiMessages(FetchRequest, FetchResponse),
    2: ApiMessages(ListOffsetsRequest, ListOffsetsResponse),
    3: ApiMessages(MetadataRequest, MetadataResponse),
    8: ApiMessages(OffsetCommitRequest, OffsetCommitResponse),
    9: ApiMessages(OffsetFetchRequest, OffsetFetchResponse),
    10: ApiMessages(FindCoordinatorRequest, FindCoordinatorResponse),
    11: ApiMessages(JoinGroupRequest, JoinGroupResponse),
    12: ApiMessages(HeartbeatRequest, HeartbeatResponse),
    13: ApiMessages(LeaveGroupRequest, LeaveGroupResponse),
    14: ApiMessages(SyncGroupRequest, SyncGroupResponse),
    15: ApiMessages(DescribeGroupsRequest, DescribeGroupsResponse),
    16: ApiMessages(ListGroupsRequest, ListGroupsResponse),
    17: ApiMessages(SaslHandshakeRequest, SaslHandshakeResponse),
    18: ApiMessages(ApiVersionsRequest, ApiVersionsResponse),
    19: ApiMessages(CreateTopicsRequest, CreateTopicsResponse),
    20: ApiMessages(DeleteTopicsRequest, DeleteTopicsResponse),
    21: ApiMessages(DeleteRecordsRequest, DeleteRecordsResponse),
    22: ApiMessages(InitProducerIdRequest, InitProducerIdResponse),
    23: ApiMessages(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    24: ApiMessages(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
    25: ApiMessages(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    26: ApiMessages(EndTxnRequest, EndTxnResponse),
    27: ApiMessages(WriteTxnMarkersRequest, WriteTxnMarkersResponse),
    28: ApiMessages(TxnOffsetCommitRequest, TxnOffsetCommitResponse),
    29: ApiMessages(DescribeAclsRequest, DescribeAclsResponse),
    30: ApiMessages(CreateAclsRequest, CreateAclsResponse),
    31: ApiMessages(DeleteAclsRequest, DeleteAclsResponse),
    32: ApiMessages(DescribeConfigsRequest, DescribeConfigsResponse),
    33: ApiMessages(AlterConfigsRequest, AlterConfigsResponse),
    34: ApiMessages(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse),
    35: ApiMessages(DescribeLogDirsRequest, DescribeLogDirsResponse),
    36: ApiMessages(SaslAuthenticateRequest, SaslAuthenticateResponse),
    37: ApiMessages(CreatePartitionsRequest, CreatePartitionsResponse),
    42: ApiMessages(DeleteGroupsRequest, DeleteGroupsResponse),
    43: ApiMessages(ElectLeadersRequest, ElectLeadersResponse),
    44: ApiMessages(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    45: ApiMessages(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
    46: ApiMessages(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    47: ApiMessages(OffsetDeleteRequest, OffsetDeleteResponse),
    48: ApiMessages(DescribeClientQuotasRequest, DescribeClientQuotasResponse),
    49: ApiMessages(AlterClientQuotasRequest, AlterClientQuotasResponse),
    50: ApiMessages(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
    51: ApiMessages(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
    52: ApiMessages(VoteRequest, VoteResponse),
    53: ApiMessages(BeginQuorumEpochRequest, BeginQuorumEpochResponse),
    54: ApiMessages(EndQuorumEpochRequest, EndQuorumEpochResponse),
    55: ApiMessages(DescribeQuorumRequest, DescribeQuorumResponse),
    56: ApiMessages(AlterPartitionRequest, AlterPartitionResponse),
    57: ApiMessages(UpdateFeaturesRequest, UpdateFeaturesResponse),
    58: ApiMessages(EnvelopeRequest, EnvelopeResponse),
    59: ApiMessages(FetchSnapshotRequest, FetchSnapshotResponse),
    60: ApiMessages(DescribeClusterRequest, DescribeClusterResponse),
    61: ApiMessages(DescribeProducersRequest, DescribeProducersResponse),
    62: ApiMessages(BrokerRegistrationRequest, BrokerRegistrationResponse),
    63: ApiMessages(BrokerHeartbeatRequest, BrokerHeartbeatResponse),
    64: ApiMessages(UnregisterBrokerRequest, UnregisterBrokerResponse),
    65: ApiMessages(DescribeTransactionsRequest, DescribeTransactionsResponse),
    66: ApiMessages(ListTransactionsRequest, ListTransactionsResponse),
    67: ApiMessages(AllocateProducerIdsRequest, AllocateProducerIdsResponse),
    68: ApiMessages(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
    69: ApiMessages(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
    70: ApiMessages(ControllerRegistrationRequest, ControllerRegistrationResponse),
    73: ApiMessages(AssignReplicasToDirsRequest, AssignReplicasToDirsResponse),
    74: ApiMessages(ListConfigResourcesRequest, ListConfigResourcesResponse),
    75: ApiMessages(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
    80: ApiMessages(AddRaftVoterRequest, AddRaftVoterResponse),
    81: ApiMessages(RemoveRaftVoterRequest, RemoveRaftVoterResponse),
    82: ApiMessages(UpdateRaftVoterRequest, UpdateRaftVoterResponse),
}
