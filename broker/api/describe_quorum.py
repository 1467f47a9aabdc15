"""DescribeQuorum (key 55): the voters of the metadata log.

Behaviour: one voter, this process, which is also the leader and has always just caught up. Any other partition gets
UNKNOWN_TOPIC_OR_PARTITION. The address is where the broker answers: a single voter needs no listener of its own.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.quorum.metadata_topic import METADATA_PARTITION
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _unknown(partition: int) -> PartitionData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return PartitionData(
        partition_index=partition,
        error_code=code,
        error_message="This server does not host this topic-partition.",
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


def _quorum(context: Context) -> PartitionData:
    broker = context.broker
    partition = broker.control.log.partition
    now_ms = broker.clock.wall_ms()
    voter = ReplicaState(
        replica_id=broker.node_id,
        log_end_offset=partition.log.log_end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        partition_index=METADATA_PARTITION.partition,
        leader_id=broker.node_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        current_voters=[voter],
        observers=[],
    )


def handle(context: Context, request: DescribeQuorumRequest) -> Message:
    """Answered at once."""
    topics = [
        TopicData(
            topic_name=topic.topic_name,
            partitions=[
                _quorum(context)
                if (topic.topic_name, each.partition_index) == METADATA_PARTITION
                else _unknown(each.partition_index)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    if all(each.error_code for topic in topics for each in topic.partitions):
        return DescribeQuorumResponse(topics=topics)  # without voters there are no addresses, either
    me = context.broker.image.brokers.brokers[context.broker.node_id]
    listeners = [Listener(name=name, host=at.host, port=at.port) for name, at in me.listeners.items()]
    return DescribeQuorumResponse(topics=topics, nodes=[Node(node_id=context.broker.node_id, listeners=listeners)])


API = Api(
    key=55,
    versions=(0, 2),
    request=DescribeQuorumRequest,
    response=DescribeQuorumResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.CLUSTER,
)
