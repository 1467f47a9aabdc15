"""DescribeProducers (key 61): the producers that partitions remember, and their open transactions (KIP-664)."""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.image.topic_names import check_topic_name
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition

__all__ = ["API"]


def handle(context: Context, request: DescribeProducersRequest) -> Pending:
    """Ask each partition's log; a partition that is named again is answered once, or a small frame would ask much."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: DescribeProducersRequest) -> Steps[Message]:
    topics = context.rows("topics")
    told: set[TopicPartition] = set()
    for topic in request.topics:
        answer = TopicResponse(name=topic.name, partitions=[])
        for number in topic.partition_indexes:
            partition = TopicPartition(topic.name, number)
            if partition not in told:
                told.add(partition)
                answer.partitions.append((yield from _partition(context, topic.name, number)))
            yield None
        yield from topics.add(answer)
    return DescribeProducersResponse(topics=topics.close())


def _partition(context: Context, topic: str, number: int) -> Steps[PartitionResponse]:
    """Producer by producer: a client may make up any number of them."""
    try:
        if not context.allows(topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        check_topic_name(topic)
        unified = context.broker.partitions.by_name(topic, number)
        unified.partition.check_online()
    except KafkaError as error:
        return PartitionResponse(partition_index=number, error_code=error.code, error_message=error.message)
    producers = []
    for entry in list(unified.log.producer_state.entries.values()):
        producers.append(
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp_ms,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.transaction_first_offset,
            )
        )
        yield None
    return PartitionResponse(partition_index=number, active_producers=producers)


def _failure(request: DescribeProducersRequest, _version: int, error: KafkaError) -> Message:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=number, error_code=error.code, error_message=error.message)
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(
    key=61,
    versions=(0, 0),
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
    handle=handle,
    operation=Operation.READ,
    resource=ResourceType.TOPIC,
    failure=_failure,
)
