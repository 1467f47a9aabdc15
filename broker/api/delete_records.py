"""DeleteRecords (key 21): move the log start forward.

Behaviour: -1 stands for the high watermark; whole segments below the new start go from the disk; archived objects
go to the trash of the archive, and from the bucket after stratalog.trash.grace.ms. The new log start is checkpointed before the answer.

The answer waits until all replicas on live brokers have moved their log starts, too: the next leader would show the
records again. REQUEST_TIMED_OUT after ``timeout_ms``; the log start has moved all the same. Source: Kafka's ``DelayedDeleteRecords``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

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
"""Between the first looks at the copies."""
_LOOK_SECONDS_MAX: Final = 0.25
"""Between those of a request that has waited long: as many may wait as there are connections."""

Outcomes = list[int | KafkaError]
"""For each partition of a request, in its order: its new log start, or why it has not moved."""


class _Awaited:
    """A partition whose copies have still to move their log starts, once however often a request names it."""

    __slots__ = ("leader", "offset", "places")

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        self.offset = 0
        """The highest one of its mentions."""
        self.places: list[int] = []
        """Those of its mentions in the request."""

    def add(self, place: int, offset: int) -> None:
        """One more mention."""
        self.offset = max(self.offset, offset)
        self.places.append(place)


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
    awaited: dict[Leader, _Awaited] = {}
    for unified, _ in found:
        outcome = unified if isinstance(unified, KafkaError) else next(deleted)
        if isinstance(unified, UnifiedLog) and isinstance(outcome, Deleted):
            context.broker.tiering.look(unified)
            leader = outcome.leader
            if leader.state.has_followers:
                awaited.setdefault(leader, _Awaited(leader)).add(len(outcomes), outcome.log_start_offset)
            outcomes.append(leader.ended or outcome.log_start_offset)
        elif isinstance(outcome, KafkaError):
            outcomes.append(outcome)
        yield None
    return outcomes, list(awaited.values())


def _answer(partition: int, outcome: int | KafkaError) -> DeleteRecordsPartitionResult:
    if isinstance(outcome, KafkaError):
        return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=-1, error_code=outcome.code)
    return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=outcome)


def handle(context: Context, request: DeleteRecordsRequest) -> Pending:
    """All partitions together: what is written down is written once."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: DeleteRecordsRequest) -> Steps[Message | Pending]:
    outcomes, awaited = yield from _delete(context, request)
    awaited = yield from _look(context, outcomes, awaited, is_over=False)
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
    monotonic, slices = context.dispatcher.monotonic, context.dispatcher.slices
    begun = monotonic()
    end = begun + max(request.timeout_ms, 0) / 1000
    while awaited := await slices.run(_look(context, outcomes, awaited, is_over=monotonic() >= end)):
        now = monotonic()
        pause = min(max(_LOOK_SECONDS, (now - begun) / 10), _LOOK_SECONDS_MAX)
        await asyncio.sleep(min(pause, max(end - now, 0)))
    return _told(context, request, outcomes)


def _look(context: Context, outcomes: Outcomes, awaited: list[_Awaited], *, is_over: bool) -> Steps[list[_Awaited]]:
    """Note down what has failed, by its time if that ``is_over``; those that are to be waited for still."""
    left = []
    for one in awaited:
        error = one.leader.ended
        if error is None and not _has_followed(context, one):
            if is_over:
                why = (
                    f"{one.leader.topic_partition} begins at {one.offset} now, and not yet on every replica that lives"
                )
                error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)
            else:
                left.append(one)
        if error is not None:
            for place in one.places:
                outcomes[place] = error
        yield None
    return left


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
