"""Every API that is declared, by key. An API exists because it stands here, not because it was imported."""

from __future__ import annotations

from typing import Final, NamedTuple

from stratalog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from stratalog.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from stratalog.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from stratalog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from stratalog.wire.messages.fetch import FetchRequest, FetchResponse
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from stratalog.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from stratalog.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from stratalog.wire.messages.metadata import MetadataRequest, MetadataResponse
from stratalog.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from stratalog.wire.messages.produce import ProduceRequest, ProduceResponse
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
    18: ApiMessages(ApiVersionsRequest, ApiVersionsResponse),
    19: ApiMessages(CreateTopicsRequest, CreateTopicsResponse),
    20: ApiMessages(DeleteTopicsRequest, DeleteTopicsResponse),
    21: ApiMessages(DeleteRecordsRequest, DeleteRecordsResponse),
    22: ApiMessages(InitProducerIdRequest, InitProducerIdResponse),
    23: ApiMessages(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    32: ApiMessages(DescribeConfigsRequest, DescribeConfigsResponse),
    44: ApiMessages(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    60: ApiMessages(DescribeClusterRequest, DescribeClusterResponse),
}
