"""DeleteRecords (key 21): move the log start forward.

Behaviour: -1 stands for the high watermark; whole segments below the new start go from the disk; archived objects
go to the trash of the archive, and from the bucket after stratalog.trash.grace.ms. The new log start is checkpointed before the answer.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.replicas.record_deletion import delete_records
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.image.topic_names import is_internal
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _find(context: Context, topic: str, partition: int) -> UnifiedLog | KafkaError:
    try:
        if not context.allows(topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        known = context.broker.image.topics.partition(topic, partition) is not None
        if known and is_internal(topic):  # also where another broker leads it
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic}")
        unified = context.broker.partitions.by_name(topic, partition)
        unified.partition.check_online()
    except KafkaError as error:
        return error
    return unified


def _delete(context: Context, request: DeleteRecordsRequest) -> Steps[list[int | KafkaError]]:
    """The new log start of every partition of the request, in its order, or why it has not moved."""
    found = []
    for topic in request.topics:
        for wanted in topic.partitions:
            found.append((_find(context, topic.name, wanted.partition_index), wanted.offset))
            yield None
    led = [(unified, offset) for unified, offset in found if isinstance(unified, UnifiedLog)]
    starts = iter((yield from delete_records(context.broker.directories, context.broker.partitions, led)))
    outcomes: list[int | KafkaError] = []
    for unified, _ in found:
        outcome = unified if isinstance(unified, KafkaError) else next(starts)
        if isinstance(unified, UnifiedLog) and isinstance(outcome, int):
            context.broker.tiering.look(unified)
        outcomes.append(outcome)
        yield None
    return outcomes


def _answer(partition: int, outcome: int | KafkaError) -> DeleteRecordsPartitionResult:
    if isinstance(outcome, KafkaError):
        return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=-1, error_code=outcome.code)
    return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=outcome)


def handle(context: Context, request: DeleteRecordsRequest) -> Pending:
    """All partitions together: what is written down is written once."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: DeleteRecordsRequest) -> Steps[Message]:
    outcomes = iter((yield from _delete(context, request)))
    topics = context.rows("topics")
    for topic in request.topics:
        partitions = [_answer(wanted.partition_index, next(outcomes)) for wanted in topic.partitions]
        yield from topics.add(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics.close())


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
