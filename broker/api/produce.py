"""Produce (key 0): append record batches, answer when they are as safe as the producer asked.

Behaviour: one batch of format v2 a partition; batches of one request are appended in its order; the answer leaves
when the last partition is done, in the order of the connection's requests. ``acks=0`` is never answered; an error
then closes the connection, as in Kafka. Versions 0 to 2 are announced (KAFKA-18659) and refused.
"""

from __future__ import annotations

from collections.abc import Hashable

from stratalog.broker.api.broker_view import Context
from stratalog.broker.api.produce_refusal import RECORD_ERRORS_SINCE, describe_refusal, name_leaders
from stratalog.broker.api.produce_transactions import TransactionalBatch, enlist, must_ask
from stratalog.broker.network.buffers import COPIED_BYTES_MAX
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.dispatch import NO_RESPONSE, PENDING, Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.metrics import TopicMetrics
from stratalog.hot.log.log import AppendInfo
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.metadata.image.topic_names import is_internal
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition

__all__ = ["API"]

_TOPIC_IDS_SINCE = 13
_ZSTD_SINCE = 7
_ZSTD = 4
_CODEC = 0x07
_TRANSACTIONAL = 0x10
_ATTRIBUTES_LOW_BYTE = 22
_RECORD_ERRORS_MAX = 10_000
"""Refused records that one answer names: a request may hold many small batches of bad records."""


class _Batch:
    """The place of one partition in a produce request, and the append that waits for it (`WaitingAppend`)."""

    __slots__ = ("answer", "deadline", "info", "metrics", "size_bytes", "whole")

    info: AppendInfo

    def __init__(
        self, whole: _Produce, answer: PartitionProduceResponse, metrics: TopicMetrics, size_bytes: int, deadline: float
    ) -> None:
        self.whole = whole
        self.answer = answer
        self.metrics = metrics
        self.size_bytes = size_bytes
        self.deadline = deadline

    @property
    def source(self) -> Hashable:
        """The connection."""
        return self.whole.context.connection

    def acknowledge(self, outcome: AppendInfo | KafkaError) -> None:
        """The append has ended."""
        answer, metrics = self.answer, self.metrics
        if type(outcome) is AppendInfo:
            answer.base_offset = outcome.base_offset
            answer.log_append_time_ms = outcome.log_append_time_ms
            metrics.bytes_in += self.size_bytes
            metrics.messages_in += outcome.last_offset - outcome.base_offset + 1
        else:
            assert isinstance(outcome, KafkaError)
            room = self.whole.record_errors_room
            self.whole.record_errors_room -= describe_refusal(answer, outcome, answer.log_start_offset, room)
            metrics.failed_produce_requests += 1
            metrics.bytes_rejected += self.size_bytes
            self.whole.moved |= outcome.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        whole = self.whole
        whole.missing -= 1
        if not whole.missing:
            whole.finish()


class _Produce:
    """A produce request whose appends are under way."""

    __slots__ = ("acks", "context", "enlisting", "missing", "moved", "record_errors_room", "response")

    def __init__(self, context: Context, acks: int) -> None:
        self.context = context
        self.acks = acks
        self.response = ProduceResponse(responses=[])
        self.missing = 1  # the handler itself, until it has looked at every partition
        self.moved = False
        """Whether the answer tells of a partition that is led elsewhere."""
        self.enlisting: list[TransactionalBatch] = []
        self.record_errors_room = _RECORD_ERRORS_MAX if context.api_version >= RECORD_ERRORS_SINCE else 0

    def whole_answer(self) -> ProduceResponse:
        """The answer, when every partition is done."""
        if self.moved:
            name_leaders(self.context, self.response)
        return self.response

    def finish(self) -> None:
        """Every partition is done."""
        if self.acks:
            self.context.respond(self.whole_answer())
            return
        for topic in self.response.responses:
            for partition in topic.partition_responses:
                if partition.error_code:
                    code = ErrorCode(partition.error_code).name
                    self.context.connection.refuse(
                        f"Produce with acks=0 to {topic.name}-{partition.index} failed with {code}: "
                        f"{partition.error_message}"
                    )
                    return


def handle(context: Context, request: ProduceRequest) -> Message | Pending | None:
    """Queue every batch; the appends answer."""
    whole = _Produce(context, request.acks)
    refusal = _refusal(context, request)
    by_id = context.api_version >= _TOPIC_IDS_SINCE
    deadline = context.broker.clock.monotonic() + request.timeout_ms / 1000
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        whole.response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.append(answer)
            if refusal is None:
                _append(context, whole, topic, data, answer, by_id=by_id, deadline=deadline)
            else:
                answer.error_code, answer.error_message = refusal.code, refusal.message
    if whole.enlisting:
        enlist(context, request.transactional_id or "", whole.enlisting)
    whole.missing -= 1
    if whole.missing:
        return PENDING if whole.acks else NO_RESPONSE
    if whole.acks:
        return whole.whole_answer()
    whole.finish()
    return NO_RESPONSE


def _refusal(context: Context, request: ProduceRequest) -> KafkaError | None:
    """Why no batch of the request can be taken."""
    if request.acks not in (-1, 0, 1):
        return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, got {request.acks}")
    if not any(_is_transactional(data) for topic in request.topic_data for data in topic.partition_data):
        return None
    transactional_id = request.transactional_id
    if transactional_id is None:
        why = "a transactional batch came without a transactional id"
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, why)
    if not context.allows(transactional_id, Operation.WRITE, ResourceType.TRANSACTIONAL_ID):
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return None


def _is_transactional(data: PartitionProduceData) -> bool:
    records = data.records
    return (
        records is not None
        and len(records) > _ATTRIBUTES_LOW_BYTE
        and bool(records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL)
    )


def _append(
    context: Context,
    whole: _Produce,
    topic: TopicProduceData,
    data: PartitionProduceData,
    answer: PartitionProduceResponse,
    *,
    by_id: bool,
    deadline: float,
) -> None:
    records = data.records
    try:
        context.require_topic(topic.topic_id if by_id else topic.name)
        unified = _find(context, topic, data.index, by_id=by_id)
        name = unified.topic_partition.topic
        _check_public(name)
        if records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the batch for {unified.topic_partition} is null")
        transactional = len(records) > _ATTRIBUTES_LOW_BYTE and _check_attributes(
            records[_ATTRIBUTES_LOW_BYTE], context, unified
        )
        leader = unified.partition.led()
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
        whole.moved |= error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        if records is not None:
            context.broker.partitions.refused.note(_place(context, topic, data.index, by_id=by_id), records, error)
        return
    answer.log_start_offset = unified.log_start_offset
    whole.missing += 1
    metrics = unified.metrics
    metrics.total_produce_requests += 1
    size_bytes = len(records)
    waiting = _Batch(whole, answer, metrics, size_bytes, deadline)
    release = None
    kept: memoryview | bytearray = records
    if size_bytes <= COPIED_BYTES_MAX:
        kept = bytearray(records)
    else:
        release = context.lease()
    if transactional and must_ask(context, unified, records):
        whole.enlisting.append(TransactionalBatch(context, leader, kept, whole.acks, release, waiting))
    else:
        leader.append(kept, whole.acks, release, waiting)


def _place(context: Context, topic: TopicProduceData, partition: int, *, by_id: bool) -> TopicPartition | PartitionKey:
    """The partition by its name, or by the id of a topic that is not known here yet."""
    known = context.broker.image.topics.by_id.get(topic.topic_id) if by_id else None
    if by_id and known is None:
        return PartitionKey(topic.topic_id, partition)
    return TopicPartition(topic.name if known is None else known.name, partition)


def _find(context: Context, topic: TopicProduceData, partition: int, *, by_id: bool) -> UnifiedLog:
    """The partition. Raises as `PartitionTable.by_name`, and what a coordinator's topic gets wherever it is led."""
    table = context.broker.partitions
    try:
        return table.by_id(topic.topic_id, partition) if by_id else table.by_name(topic.name, partition)
    except KafkaError as error:
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            known = context.broker.image.topics.by_id.get(topic.topic_id) if by_id else None  # deleted, and due still
            _check_public(topic.name if known is None else known.name)
        raise


def _check_public(topic: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION for a coordinator's own: it would not know of the records, nor read them when loaded."""
    if is_internal(topic):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic}")


def _check_attributes(attributes: int, context: Context, unified: UnifiedLog) -> bool:
    """Whether the batch belongs to a transaction. Raises `KafkaError` for one that the request's version cannot carry."""
    version = context.api_version
    if attributes & _CODEC == _ZSTD and version < _ZSTD_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce v{_ZSTD_SINCE}, a batch for {unified.topic_partition} came in v{version}",
        )
    return bool(attributes & _TRANSACTIONAL)


def _failure(request: ProduceRequest, _version: int, error: KafkaError) -> Message | None:
    """The error for every partition, for queued work that can no longer be answered; none under ``acks=0``."""
    if request.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index, base_offset=-1, error_code=error.code, error_message=error.message
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


API = Api(
    key=0,
    versions=(3, 13),
    advertised_since=0,
    request=ProduceRequest,
    response=ProduceResponse,
    handle=handle,
    operation=Operation.WRITE,
    resource=ResourceType.TOPIC,
    failure=_failure,
)
