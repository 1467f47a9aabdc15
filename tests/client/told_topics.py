"""Answers about topics, as brokers give them, from short descriptions of their partitions."""

from stratalog.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from stratalog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from stratalog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def metadata(port, brokers, topics):
    """``topics``: name -> rows of (leader, replicas, in sync, offline); all ``brokers`` are at one port of this machine."""
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=one, host="127.0.0.1", port=port, rack=None) for one in brokers],
        cluster_id="c",
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name=name,
                topic_id=name.encode().ljust(16, b"-")[:16],
                is_internal=name.startswith("__"),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=number,
                        leader_id=leader,
                        leader_epoch=7,
                        replica_nodes=list(replicas),
                        isr_nodes=list(in_sync),
                        offline_replicas=list(offline),
                    )
                    for number, (leader, replicas, in_sync, offline) in enumerate(rows)
                ],
            )
            for name, rows in topics.items()
        ],
    )


def topic_partitions(eligible, following=None):
    """``eligible``: name -> {partition: eligible replicas or None}; ``following`` is where the next page begins."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                name=name,
                partitions=[
                    DescribeTopicPartitionsResponsePartition(
                        partition_index=number,
                        leader_id=1,
                        replica_nodes=[],
                        isr_nodes=[],
                        eligible_leader_replicas=replicas,
                    )
                    for number, replicas in rows.items()
                ],
            )
            for name, rows in eligible.items()
        ],
        next_cursor=None if following is None else Cursor(topic_name=following[0], partition_index=following[1]),
    )


def configs(values):
    """``values``: topic -> {setting: value}."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                resource_type=2,
                resource_name=name,
                configs=[
                    DescribeConfigsResourceResult(
                        name=key, value=value, read_only=False, is_sensitive=False, synonyms=[], config_source=1
                    )
                    for key, value in settings.items()
                ],
            )
            for name, settings in values.items()
        ]
    )
