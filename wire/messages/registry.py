"""Every API that is declared, by key. An API exists because it stands here, not because it was imported."""

from __future__ import annotations

from typing import Final, NamedTuple

from stratalog.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from stratalog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from stratalog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from stratalog.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from stratalog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from stratalog.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from stratalog.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from stratalog.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from stratalog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from stratalog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from stratalog.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from stratalog.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from stratalog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from stratalog.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from stratalog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from stratalog.wire.messages.fetch import FetchRequest, FetchResponse
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from stratalog.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from stratalog.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from stratalog.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from stratalog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from stratalog.wire.messages.metadata import MetadataRequest, MetadataResponse
from stratalog.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from stratalog.wire.messages.produce import ProduceRequest, ProduceResponse
from stratalog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from stratalog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from stratalog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from stratalog.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
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
    10: ApiMessages(FindCoordinatorRequest, FindCoordinatorResponse),
    17: ApiMessages(SaslHandshakeRequest, SaslHandshakeResponse),
    18: ApiMessages(ApiVersionsRequest, ApiVersionsResponse),
    19: ApiMessages(CreateTopicsRequest, CreateTopicsResponse),
    20: ApiMessages(DeleteTopicsRequest, DeleteTopicsResponse),
    21: ApiMessages(DeleteRecordsRequest, DeleteRecordsResponse),
    22: ApiMessages(InitProducerIdRequest, InitProducerIdResponse),
    23: ApiMessages(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    29: ApiMessages(DescribeAclsRequest, DescribeAclsResponse),
    30: ApiMessages(CreateAclsRequest, CreateAclsResponse),
    31: ApiMessages(DeleteAclsRequest, DeleteAclsResponse),
    32: ApiMessages(DescribeConfigsRequest, DescribeConfigsResponse),
    33: ApiMessages(AlterConfigsRequest, AlterConfigsResponse),
    35: ApiMessages(DescribeLogDirsRequest, DescribeLogDirsResponse),
    36: ApiMessages(SaslAuthenticateRequest, SaslAuthenticateResponse),
    37: ApiMessages(CreatePartitionsRequest, CreatePartitionsResponse),
    43: ApiMessages(ElectLeadersRequest, ElectLeadersResponse),
    44: ApiMessages(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    46: ApiMessages(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    50: ApiMessages(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
    51: ApiMessages(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
    55: ApiMessages(DescribeQuorumRequest, DescribeQuorumResponse),
    57: ApiMessages(UpdateFeaturesRequest, UpdateFeaturesResponse),
    60: ApiMessages(DescribeClusterRequest, DescribeClusterResponse),
    64: ApiMessages(UnregisterBrokerRequest, UnregisterBrokerResponse),
    74: ApiMessages(ListConfigResourcesRequest, ListConfigResourcesResponse),
    75: ApiMessages(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
}
