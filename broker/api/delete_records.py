"""DeleteRecords (key 21): move the log start forward.

Behaviour: -1 stands for the high watermark; whole segments below the new start go from the disk; archived objects
go to the trash of the archive, and from the bucket after stratalog.trash.grace.ms. The new log start is checkpointed before the answer.

The answer waits until all replicas on live brokers have moved their log starts, too: the next leader would show the
records again. REQUEST_TIMED_OUT after ``timeout_ms``; the log start has moved all the same. Source: Kafka's ``DelayedDeleteRecords``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from stratalog.broker.api.broker_view import Context
from stratalog.broker.replicas.leader import Leader
from stratalog.broker.replicas.record_deletion import Deleted, copies_begin_at, delete_records
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.image.brokers_image import BrokerImage
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

_LOOK_SECONDS: Final = 0.02

Outcomes = list[int | KafkaError]
"""For each partition of a request, in its order: its new log start, or why it has not moved."""


class _Awaited(NamedTuple):
    """A partition whose copies have still to move their log starts."""

    place: int
    """In the request."""
    leader: Leader
    offset: int


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


def _delete(context: Context, request: DeleteRecordsRequest) -> Steps[tuple[Outcomes, list[_Awaited]]]:
    """Move log starts here; the outcomes, and the partitions whose copies have to follow."""
    found = []
    for topic in request.topics:
        for wanted in topic.partitions:
            found.append((_find(context, topic.name, wanted.partition_index), wanted.offset))
            yield None
    led = [(unified, offset) for unified, offset in found if isinstance(unified, UnifiedLog)]
    deleted = iter((yield from delete_records(context.broker.directories, context.broker.partitions, led)))
    outcomes: Outcomes = []
    awaited: list[_Awaited] = []
    for unified, _ in found:
        outcome = unified if isinstance(unified, KafkaError) else next(deleted)
        if isinstance(unified, UnifiedLog) and isinstance(outcome, Deleted):
            context.broker.tiering.look(unified)
            leader = outcome.leader
            if leader.state.has_followers:
                awaited.append(_Awaited(len(outcomes), leader, outcome.log_start_offset))
            outcomes.append(leader.ended or outcome.log_start_offset)
        elif isinstance(outcome, KafkaError):
            outcomes.append(outcome)
        yield None
    return outcomes, awaited


def _answer(partition: int, outcome: int | KafkaError) -> DeleteRecordsPartitionResult:
    if isinstance(outcome, KafkaError):
        return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=-1, error_code=outcome.code)
    return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=outcome)


def handle(context: Context, request: DeleteRecordsRequest) -> Pending:
    """All partitions together: what is written down is written once."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: DeleteRecordsRequest) -> Steps[Message | Pending]:
    outcomes, awaited = yield from _delete(context, request)
    awaited = [one for one in awaited if not _has_followed(context, one)]
    if awaited:
        return context.run(_wait(context, request, outcomes, awaited))
    return (yield from _told(context, request, outcomes))


def _told(context: Context, request: DeleteRecordsRequest, outcomes: Sequence[int | KafkaError]) -> Steps[Message]:
    each = iter(outcomes)
    topics = context.rows("topics")
    for topic in request.topics:
        partitions = [_answer(wanted.partition_index, next(each)) for wanted in topic.partitions]
        yield from topics.add(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics.close())


async def _wait(
    context: Context, request: DeleteRecordsRequest, outcomes: Outcomes, awaited: list[_Awaited]
) -> Steps[Message]:
    """The steps of the answer, once all copies have followed or the time is over."""
    monotonic = context.dispatcher.monotonic
    end = monotonic() + max(request.timeout_ms, 0) / 1000
    while awaited:
        is_over = monotonic() >= end
        left = []
        for one in awaited:
            if one.leader.ended is not None:
                outcomes[one.place] = one.leader.ended
            elif not _has_followed(context, one):
                if is_over:
                    outcomes[one.place] = KafkaError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"{one.leader.topic_partition} begins at {one.offset} now, and not yet on every replica that lives",
                    )
                else:
                    left.append(one)
        awaited = left
        if awaited:
            await asyncio.sleep(_LOOK_SECONDS)
    return _told(context, request, outcomes)


def _brokers(context: Context) -> Mapping[int, BrokerImage]:
    return context.broker.image.brokers.brokers


def _has_followed(context: Context, awaited: _Awaited) -> bool:
    brokers = _brokers(context)
    present = [one for one in awaited.leader.state.replicas if one in brokers and not brokers[one].is_fenced]
    return copies_begin_at(awaited.leader.state, awaited.offset, present)


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
