"""OffsetForLeaderEpoch (key 23): where a leader epoch ends (KIP-101, KIP-320).

Behaviour: the end of an epoch is the start of the next larger one, or the log end for the current one; an epoch
that never was answers with the largest below it. -1 and -1 where nothing is known.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.authorizer import CLUSTER_NAME
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _look_up(context: Context, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        if not context.allows(topic) and not context.allows(
            CLUSTER_NAME, Operation.CLUSTER_ACTION, ResourceType.CLUSTER
        ):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        unified = context.broker.partitions.readable_by_name(topic, wanted.partition)
        unified.partition.check_leader_epoch(wanted.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = unified.offset_for_leader_epoch(wanted.leader_epoch)
    except KafkaError as error:
        answer.error_code = error.code
    return answer


def handle(context: Context, request: OffsetForLeaderEpochRequest) -> Pending:
    """Partition by partition."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: OffsetForLeaderEpochRequest) -> Steps[Message]:
    topics = context.rows("topics")
    for topic in request.topics:
        answer = OffsetForLeaderTopicResult(topic=topic.topic, partitions=[])
        for wanted in topic.partitions:
            answer.partitions.append(_look_up(context, topic.topic, wanted))
            yield None
        yield from topics.add(answer)
    return OffsetForLeaderEpochResponse(topics=topics.close())


def _failure(request: OffsetForLeaderEpochRequest, _version: int, error: KafkaError) -> Message:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=wanted.partition, error_code=error.code) for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(
    key=23,
    versions=(2, 4),
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.TOPIC,
    failure=_failure,
)
