"""Fetch (key 1): read record batches, at once or when enough has come.

Behaviour: full fetches (session 0; sessions are refused as unknown, which every client answers with a full fetch).
Partitions are filled in the order of the request; the first one with data gives at least one batch however small
the limits. An answer that lacks ``min_bytes`` waits for appends, or for chunks of the archive, up to
``max_wait_ms``; it is never given up as long as something can be returned.
"""

from __future__ import annotations

from collections.abc import Iterable

from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import PENDING, Api, Operation, Pending, ResourceType
from stratalog.broker.purgatory import Waiter
from stratalog.broker.unified_log import LogRead, UnifiedLog
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

_TOPIC_IDS_SINCE = 13
_READ_COMMITTED = 1
_NO_SESSION = 0


class _Fetch:
    """A fetch that may have to wait."""

    __slots__ = ("committed", "context", "keys", "pending_remote", "request", "waiter")

    def __init__(self, context: RequestContext, request: FetchRequest) -> None:
        self.context = context
        self.request = request
        self.committed = request.isolation_level == _READ_COMMITTED
        self.keys: list[UnifiedLog] = []
        self.pending_remote = False
        self.waiter: Waiter | None = None

    def attempt(self, *, final: bool) -> FetchResponse | None:
        """The answer, or None if there is not enough yet and ``final`` is not set."""
        request = self.request
        by_id = self.context.api_version >= _TOPIC_IDS_SINCE
        left_bytes = min(request.max_bytes, self.context.broker.config.integer("fetch.max.bytes"))
        found_bytes = 0
        complete = False
        self.keys = []
        topics: list[FetchableTopicResponse] = []
        for topic in request.topics:
            answers: list[PartitionData] = []
            topics.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers))
            for wanted in topic.partitions:
                answer = PartitionData(partition_index=wanted.partition, high_watermark=-1, records=b"")
                answers.append(answer)
                try:
                    read = self._partition(
                        topic, wanted, answer, left_bytes, by_id=by_id, min_one_batch=found_bytes == 0
                    )
                except KafkaError as error:
                    answer.error_code = error.code
                    complete = True
                    continue
                found_bytes += read.size_bytes
                left_bytes = max(left_bytes - read.size_bytes, 0)
                complete = complete or answer.diverging_epoch is not None
        if final or complete or found_bytes >= request.min_bytes:
            self._count(topics)
            return FetchResponse(responses=topics, session_id=_NO_SESSION)
        return None

    def _partition(
        self,
        topic: FetchTopic,
        wanted: FetchPartition,
        answer: PartitionData,
        left_bytes: int,
        *,
        by_id: bool,
        min_one_batch: bool,
    ) -> LogRead:
        table = self.context.broker.partitions
        unified: UnifiedLog = (
            table.by_id(topic.topic_id, wanted.partition) if by_id else table.by_name(topic.topic, wanted.partition)
        )
        if not self.context.allows(unified.topic_partition.topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = unified.partition
        partition.check_leader_epoch(wanted.current_leader_epoch)
        answer.high_watermark = partition.high_watermark
        answer.last_stable_offset = partition.last_stable_offset
        answer.log_start_offset = unified.log_start_offset
        answer.aborted_transactions = [] if self.committed else None
        self.keys.append(unified)
        if wanted.last_fetched_epoch >= 0 and (diverging := _divergence(unified, wanted)) is not None:
            answer.diverging_epoch = diverging
            return LogRead()
        max_bytes = min(wanted.partition_max_bytes, left_bytes)
        try:
            read = unified.read(
                (self.context.connection, unified),
                wanted.fetch_offset,
                max_bytes=max_bytes,
                committed=self.committed,
                min_one_batch=min_one_batch,
            )
        except Corrupt as error:
            self.context.broker.report_corruption(unified, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except OSError as error:
            partition.directory.report(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self.pending_remote = self.pending_remote or read.pending
        if read.size_bytes:
            answer.records = list(read.parts)
        if self.committed:
            answer.aborted_transactions = [
                AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset in read.aborted
            ]
        return read

    def _count(self, topics: Iterable[FetchableTopicResponse]) -> None:
        """Add what leaves to the figures of its topics."""
        table = self.context.broker.partitions
        metrics = self.context.broker.metrics
        for topic in topics:
            name = topic.topic or table.name_of(topic.topic_id)
            if name is None:
                continue
            figures = metrics.topics.get(name)
            if figures is None:
                continue
            for answer in topic.partitions:
                figures.total_fetch_requests += 1
                if answer.error_code:
                    figures.failed_fetch_requests += 1
                elif answer.records:
                    assert isinstance(answer.records, list)
                    figures.bytes_out += sum(map(len, answer.records))

    # -- waiting ----------------------------------------------------------------------------------------------

    def park(self) -> Pending:
        """Wait for appends, for chunks, or for the time to be over."""
        broker = self.context.broker
        wait_ms = self.request.max_wait_ms
        if self.pending_remote:
            wait_ms = max(wait_ms, broker.config.integer("remote.fetch.max.wait.ms"))
        self.waiter = broker.purgatory.wait(self.keys, wait_ms, self.try_complete, self.expire)
        self.context.on_abandon = self.waiter.cancel
        return PENDING

    def try_complete(self) -> bool:
        """Something has come."""
        response = self.attempt(final=False)
        if response is None:
            return False
        self.context.respond(response)
        return True

    def expire(self) -> None:
        """Answer with what there is."""
        response = self.attempt(final=True)
        assert response is not None
        self.context.respond(response)


def _divergence(unified: UnifiedLog, wanted: FetchPartition) -> EpochEndOffset | None:
    """Where the reader's history and ours part ways, if they do (KIP-595)."""
    epoch, end_offset = unified.offset_for_leader_epoch(wanted.last_fetched_epoch)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def handle(context: RequestContext, request: FetchRequest) -> Message | Pending:
    """Answer now if there is enough, else wait."""
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if request.session_id != _NO_SESSION:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    if request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, responses=[])
    if replica_id >= 0:
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"broker {replica_id} is no replica of anything on this broker"
        )
    fetch = _Fetch(context, request)
    response = fetch.attempt(final=request.max_wait_ms <= 0 or request.min_bytes <= 0)
    return fetch.park() if response is None else response


def _failure(request: FetchRequest, version: int, error: KafkaError) -> Message:
    """As in Kafka by partition, too, while topics are named: version 7 brought the code of the whole."""
    topics = request.topics if version < _TOPIC_IDS_SINCE else []
    return FetchResponse(
        error_code=error.code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(
                        partition_index=wanted.partition, error_code=error.code, high_watermark=-1, records=b""
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


API = Api(
    key=1,
    versions=(4, 18),
    request=FetchRequest,
    response=FetchResponse,
    handle=handle,
    operation=Operation.READ,
    resource=ResourceType.TOPIC,
    failure=_failure,
)
