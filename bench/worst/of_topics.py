"""Requests about topics that ask for the most."""

from __future__ import annotations

from collections.abc import Sequence

from bench.worst.worst import ELEMENTS, Add
from stratalog.wire.messages.alter_configs import AlterableConfig as WholeConfig
from stratalog.wire.messages.alter_configs import AlterConfigsRequest
from stratalog.wire.messages.alter_configs import AlterConfigsResource as WholeResource
from stratalog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from stratalog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from stratalog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from stratalog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.messages.list_config_resources import ListConfigResourcesRequest
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratalog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["add_topics"]


_TOPIC, _BROKER, _CLIENT_METRICS, _GROUP = 2, 4, 16, 32


def add_topics(add: Add, topics: Sequence[str], groups: Sequence[str], half: Sequence[str]) -> None:
    """Those about topics, their settings and their offsets."""
    _configs(add, topics, groups)
    _alterations(add, half)
    _topics(add, topics, half)
    _offsets(add, half)
    _records(add, half)


def _configs(add: Add, topics: Sequence[str], groups: Sequence[str]) -> None:
    def describe(kind: int, names: Sequence[str]) -> DescribeConfigsRequest:
        return DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                for name in names
            ],
            include_synonyms=True,
            include_documentation=True,
        )

    add("9,900 groups", describe(_GROUP, groups), 1, 4)
    add("9,900 topics", describe(_TOPIC, topics[:ELEMENTS]), 4)
    add("9,900 client metrics", describe(_CLIENT_METRICS, groups), 4)
    add("this broker, 100 pipelined", describe(_BROKER, ["1"]), 4, pipelined=100)


def _alterations(add: Add, half: Sequence[str]) -> None:
    change = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    add(
        "validates 4,900 topics",
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=[change]) for name in half
            ],
            validate_only=True,
        ),
    )
    add(
        "validates 4,900 topics",
        AlterConfigsRequest(
            resources=[
                WholeResource(
                    resource_type=_TOPIC, resource_name=name, configs=[WholeConfig(name="retention.ms", value="1000")]
                )
                for name in half
            ],
            validate_only=True,
        ),
    )
    add("everything", ListConfigResourcesRequest(resource_types=[]))


def _topics(add: Add, topics: Sequence[str], half: Sequence[str]) -> None:
    add("all topics", MetadataRequest(topics=None), 1, 13)
    add(
        "all topics with operations",
        MetadataRequest(topics=None, include_topic_authorized_operations=True),
        8,
        13,
    )
    by_name = [MetadataRequestTopic(name=name) for name in topics[:ELEMENTS]]
    add("9,900 topics", MetadataRequest(topics=by_name, include_topic_authorized_operations=True), 9)
    absent = [MetadataRequestTopic(name=f"absent-{number}") for number in range(ELEMENTS)]
    add("9,900 absent topics", MetadataRequest(topics=absent, allow_auto_topic_creation=False), 4, 13)
    named = [TopicRequest(name=name) for name in topics[:ELEMENTS]]
    add("9,900 topics", DescribeTopicPartitionsRequest(topics=named, response_partition_limit=10_000))
    add("all topics", DescribeTopicPartitionsRequest(topics=[], response_partition_limit=10_000))
    fresh = [
        CreatableTopic(name=f"new-{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for number in range(ELEMENTS)
    ]
    add("validates 9,900", CreateTopicsRequest(topics=fresh, validate_only=True), 2, 7)
    add("validates 9,900 that exist", CreateTopicsRequest(topics=_existing(topics), validate_only=True), 7)
    unknown = [DeleteTopicState(name=f"absent-{number}") for number in range(ELEMENTS)]
    for state in unknown:
        state.topic_id = bytes(16)
    add("9,900 absent topics", DeleteTopicsRequest(topics=unknown, topic_names=[], timeout_ms=1000), 6)
    more = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in topics[:ELEMENTS]]
    add("validates 9,900", CreatePartitionsRequest(topics=more, timeout_ms=1000, validate_only=True))
    add(
        "4,900 topics, no offset",
        DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
                for name in half
            ],
            timeout_ms=1000,
        ),
    )


def _existing(topics: Sequence[str]) -> list[CreatableTopic]:
    return [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in topics[:ELEMENTS]
    ]


def _offsets(add: Add, half: Sequence[str]) -> None:
    add(
        "4,900 topics",
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[
                ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
                for name in half
            ],
            timeout_ms=1000,
        ),
        1,
        11,
    )
    add(
        "4,900 topics by time",
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[
                ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=1000)])
                for name in half
            ],
            timeout_ms=1000,
        ),
        11,
    )
    add(
        "4,900 topics",
        OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
                for name in half
            ]
        ),
    )


def _records(add: Add, half: Sequence[str]) -> None:
    add(
        "4,900 topics",
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=[
                FetchTopic(
                    topic=name, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
                )
                for name in half
            ],
        ),
        4,
        12,
    )
    add(
        "4,900 topics, no records",
        ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=None)])
                for name in half
            ],
        ),
        3,
        12,
    )
