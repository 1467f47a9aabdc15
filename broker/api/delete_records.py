"""DeleteRecords (key 21): move the log start forward.

Behaviour: -1 stands for the high watermark; whole segments below the new start go from the disk; archived objects
stay in the bucket, unreadable through the broker. The new log start is checkpointed before the answer.
"""

from __future__ import annotations

from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Operation, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _delete(context: RequestContext, topic: str, partition: int, offset: int) -> DeleteRecordsPartitionResult:
    broker = context.broker
    answer = DeleteRecordsPartitionResult(partition_index=partition, low_watermark=-1)
    try:
        if not context.allows(topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        unified = broker.partitions.by_name(topic, partition)
        unified.partition.check_online()
        answer.low_watermark = broker.led.delete_records(unified, offset)
        broker.tiering.look(unified)
    except KafkaError as error:
        answer.error_code = error.code
    return answer


def handle(context: RequestContext, request: DeleteRecordsRequest) -> Message:
    """Partition by partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(context, topic.name, wanted.partition_index, wanted.offset) for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _failure(request: DeleteRecordsRequest, _version: int, error: KafkaError) -> Message:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=wanted.partition_index, low_watermark=-1, error_code=error.code
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(
    key=21,
    versions=(0, 2),
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
    handle=handle,
    operation=Operation.DELETE,
    resource=ResourceType.TOPIC,
    failure=_failure,
)
