"""ListOffsets (key 2): the ends of a log, and the first record at or after a time.

Behaviour: -1 high watermark (read_committed: last stable offset), -2 log start, -3 the record with the largest
timestamp, -4 local log start, -5 the last archived offset, -6 the first offset not yet archived; -5 and -6 are -1
where nothing is archived, -3 is while its record is not below what -1 answers. Times are exact records, looked up in the
archive first where the local disk begins later; that part of an answer takes a GET or two and leaves when it is there.
Large batches are opened in a worker. A partition whose leadership ends meanwhile is refused: its archive is not read here any more.

Replica id -2 is Kafka's debugging consumer: the latest offset is then the end of the log, and a follower answers for the ends
of its copy, which is how far it has come.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

from stratalog.broker.api.broker_view import Context
from stratalog.broker.replicas.leader import Leader
from stratalog.broker.replicas.unified_log import SearchBatch, UnifiedLog
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import FIRST_SECONDS, Steps
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError, Retriable
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_READ_COMMITTED = 1
_CONSUMER, _DEBUGGING = -1, -2
_ENDS_OF_A_COPY = frozenset({LATEST, EARLIEST, EARLIEST_LOCAL})
_NOT_AVAILABLE_SINCE = 5
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


def _last_fetchable(unified: UnifiedLog, *, committed: bool, for_replica: bool) -> int:
    """The end of the records that may be named in an answer (Kafka: ``lastFetchableOffset``)."""
    partition = unified.partition
    if for_replica:
        return partition.log.log_end_offset
    return partition.last_stable_offset if committed else partition.high_watermark


def _end(unified: UnifiedLog, timestamp: int, *, committed: bool, for_replica: bool) -> int:
    """The offset of one of the named ends; -1 for one that does not exist.

    Raises OFFSET_NOT_AVAILABLE for a latest offset that a new leader does not know yet (KIP-207).
    """
    remote = unified.remote
    if timestamp == LATEST:
        if unified.partition.is_behind and not for_replica:
            raise _not_available(unified)
        return _last_fetchable(unified, committed=committed, for_replica=for_replica)
    if timestamp == EARLIEST:
        return unified.log_start_offset
    if timestamp == EARLIEST_LOCAL:
        return unified.log.local_log_start_offset
    if remote is None:
        return -1
    if timestamp == LATEST_TIERED:
        return remote.end_offset - 1 if remote.end_offset > remote.start_offset else -1
    return max(remote.end_offset, unified.log.local_log_start_offset)


def _not_available(unified: UnifiedLog) -> KafkaError:
    why = f"{unified.topic_partition}: the high watermark has not reached the start of this leader's epoch"
    return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, why)


def _fill_end(
    unified: UnifiedLog, answer: ListOffsetsPartitionResponse, timestamp: int, *, committed: bool, for_replica: bool
) -> None:
    offset = _end(unified, timestamp, committed=committed, for_replica=for_replica)
    answer.offset = offset
    if offset >= 0:
        epoch = unified.log.leader_epochs.epoch_for(offset)
        answer.leader_epoch = -1 if epoch is None else epoch


async def _look_up(
    unified: UnifiedLog,
    answer: ListOffsetsPartitionResponse,
    timestamp: int,
    *,
    leader: Leader | None,
    committed: bool,
    for_replica: bool,
    search: SearchBatch,
) -> None:
    """A record by its time, in the archive and on the local disk.

    The one with the largest timestamp of the whole log may not be named yet: there is none then, as in Kafka. A new leader
    may not know yet that there is one: it says so instead of "none". ``leader`` is the role of when the request came.
    """
    is_behind = unified.partition.is_behind
    limit = _last_fetchable(unified, committed=committed, for_replica=for_replica)
    try:
        if timestamp == MAX_TIMESTAMP:
            found = await unified.find_max_timestamp(search)
            if found is not None and found.offset >= limit:
                found = None
        else:
            found = await unified.find_timestamp(timestamp, committed=committed, search=search)
        if unified.partition.leader is not leader:
            # The archive went with the role. A look-up without it answers with the first record that is on this disk.
            why = f"the leadership of {unified.topic_partition} has ended while a record was looked up by its time"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)
        if is_behind and found is None:
            raise _not_available(unified)
    except KafkaError as error:
        answer.error_code = error.code
    except (Corrupt, OSError, Retriable):
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        if found is not None:
            answer.timestamp, answer.offset, answer.leader_epoch = found


class _Lookups:
    """The partitions of one request, and those that have to be looked up later."""

    def __init__(self, context: Context, request: ListOffsetsRequest) -> None:
        self._context = context
        self._request = request
        self._committed = request.isolation_level == _READ_COMMITTED
        self._for_replica = request.replica_id != _CONSUMER
        self._at_followers = request.replica_id == _DEBUGGING
        self._later: list[tuple[UnifiedLog, ListOffsetsPartitionResponse, int, Leader | None]] = []
        self._mentions = Counter(
            (topic.name, one.partition_index) for topic in request.topics for one in topic.partitions
        )
        self._answers: list[ListOffsetsTopicResponse] = []

    def steps(self) -> Steps[Message | Pending]:
        """The answer, or PENDING where records have to be looked up later."""
        for topic in self._request.topics:
            answer = ListOffsetsTopicResponse(name=topic.name, partitions=[])
            self._answers.append(answer)
            for wanted in {one.partition_index: one for one in topic.partitions}.values():
                answer.partitions.append(self._first(topic.name, wanted))
                yield None
        if self._later:
            return self._context.run(self._finish())
        return (yield from self._encoded())

    def _encoded(self) -> Steps[Message | Pending]:
        topics = self._context.rows("topics")
        for answer in self._answers:
            yield from topics.add(answer)
        return ListOffsetsResponse(topics=topics.close())

    def _first(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
        try:
            if not self._context.allows(topic):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if self._mentions[topic, wanted.partition_index] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "A partition can be asked for once in a request.")
            unified = self._context.broker.partitions.readable_by_name(topic, wanted.partition_index)
            timestamp = wanted.timestamp
            if not (self._at_followers and timestamp in _ENDS_OF_A_COPY and unified.partition.is_copied):
                unified.partition.check_leader_epoch(wanted.current_leader_epoch)
            if timestamp < EARLIEST_PENDING_UPLOAD or self._context.api_version < _SINCE.get(timestamp, 0):
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            if timestamp >= 0 or timestamp == MAX_TIMESTAMP:
                self._later.append((unified, answer, timestamp, unified.partition.leader))
            else:
                _fill_end(unified, answer, timestamp, committed=self._committed, for_replica=self._for_replica)
        except KafkaError as error:
            answer.error_code = self._known(error.code)
        return answer

    def _known(self, code: int) -> int:
        """The code as clients of the request's version know it."""
        is_new = code == ErrorCode.OFFSET_NOT_AVAILABLE and self._context.api_version < _NOT_AVAILABLE_SINCE
        return ErrorCode.LEADER_NOT_AVAILABLE if is_new else code

    async def _finish(self) -> Steps[Message | Pending]:
        """Look the rest up. Most look-ups wait for nothing: after some of them others get their turn."""
        context = self._context
        search: SearchBatch = partial(context.broker.deep_work.search, source=context.connection)
        monotonic = context.dispatcher.monotonic
        turn_end = monotonic() + FIRST_SECONDS
        for unified, answer, timestamp, leader in self._later:
            await _look_up(
                unified,
                answer,
                timestamp,
                leader=leader,
                committed=self._committed,
                for_replica=self._for_replica,
                search=search,
            )
            answer.error_code = self._known(answer.error_code)
            if monotonic() >= turn_end:
                await asyncio.sleep(0)
                turn_end = monotonic() + FIRST_SECONDS
        return self._encoded()


def handle(context: Context, request: ListOffsetsRequest) -> Pending:
    """Answer the ends at once; records by time when they have been found."""
    return context.sliced(_Lookups(context, request).steps())


def _failure(request: ListOffsetsRequest, _version: int, error: KafkaError) -> Message:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error.code)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(
    key=2,
    versions=(1, 11),
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.TOPIC,
    failure=_failure,
    of_nodes=lambda request, _version: request.replica_id >= 0,
)
