"""Fetch (key 1): read record batches, at once or when enough has come.

Partitions are filled in the order of the request, or of the session that it goes on with (KIP-227,
`stratalog.broker.fetch_sessions`); the first one with data gives at least one batch however small the limits. An
answer that lacks ``min_bytes`` waits for appends, or for chunks of the archive, up to ``max_wait_ms``; it is never
given up as long as something can be returned.
"""

from __future__ import annotations

from typing import Any

from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.fetch_attempt import TOPIC_IDS_SINCE, FetchAttempt
from stratalog.broker.fetch_sessions import SessionFetch
from stratalog.metadata.fetch_session import EPOCH_FINAL, EPOCH_INITIAL
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


class _FullFetch(FetchAttempt):
    """A request that names all its partitions, and is told of all of them."""

    __slots__ = ()

    def attempt(self, *, final: bool) -> FetchResponse | None:
        """Every partition, or None if there is not enough yet and ``final`` is not set."""
        request = self.request
        find: Any = self.table.readable_by_id if self.by_id else self.table.readable_by_name
        left_bytes = self.max_bytes
        found_bytes = self.cut_bytes = 0
        self.pending_remote = []
        complete = final or not request.topics
        self.watched = found = []
        topics: list[FetchableTopicResponse] = []
        for topic in request.topics:
            key = topic.topic_id if self.by_id else topic.topic
            answers: list[PartitionData] = []
            topics.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers))
            for wanted in topic.partitions:
                number = wanted.partition
                answer = PartitionData(partition_index=number, high_watermark=-1, records=b"")
                answers.append(answer)
                try:
                    unified = find(key, number)
                    found.append(unified)
                    size_bytes = self.read(unified, wanted, answer, left_bytes, min_one_batch=found_bytes == 0)
                except KafkaError as error:
                    answer.error_code = error.code
                    complete = True
                    continue
                if size_bytes:
                    found_bytes += size_bytes
                    left_bytes = max(left_bytes - size_bytes, 0)
                elif answer.diverging_epoch is not None:
                    complete = True
        if complete or (found_bytes and self.enough(found_bytes)):
            return self._answer(topics)
        return None

    def _answer(self, topics: list[FetchableTopicResponse]) -> FetchResponse:
        response = FetchResponse(responses=topics)
        if self.pending_remote:
            self.throttle(response, partition_count=sum(len(topic.partitions) for topic in topics))
        if self.context.connection.quota is not None and not self.may_leave(response):
            return FetchResponse(responses=[])
        self.count(topics)
        if self.request.session_epoch == EPOCH_INITIAL:
            response.session_id = self.context.broker.fetch_sessions.begin(self.context, self.request, topics)
        return response


def handle(context: RequestContext, request: FetchRequest) -> Message | Pending:
    """Answer now if there is enough, else wait."""
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica_id >= 0:
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"broker {replica_id} is no replica of anything on this broker"
        )
    if request.session_epoch in (EPOCH_FINAL, EPOCH_INITIAL):
        if request.session_id:
            context.broker.fetch_sessions.close(request.session_id)
        return _FullFetch(context, request).start()
    try:
        session = context.broker.fetch_sessions.resume(context, request)
    except KafkaError as error:
        return FetchResponse(error_code=error.code, responses=[])
    if session is None:
        return _FullFetch(context, request).start()
    return SessionFetch(context, request, session).start()


def _failure(request: FetchRequest, version: int, error: KafkaError) -> Message:
    """As in Kafka by partition, too, while topics are named: version 7 brought the code of the whole."""
    topics = request.topics if version < TOPIC_IDS_SINCE else []
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
