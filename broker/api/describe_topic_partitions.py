"""DescribeTopicPartitions (key 75): partitions of topics, page by page (KIP-966).

Behaviour: topics come in the order of their names, each once. A page has at most as many partitions as the request
and ``max.request.partition.size.limit`` allow; the next one begins where its cursor says. A partition without a leader has
leader -1 and no error, as in Kafka. Topics that may not be
described come last, and only if they were named.
"""

from __future__ import annotations

from collections.abc import Iterable

from stratalog.broker.api.broker_view import Context
from stratalog.broker.api.partition_health import partition_health
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topic_names import absence_code, is_internal
from stratalog.metadata.image.topics_image import PartitionImage, TopicImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _names(image: ClusterImage, request: DescribeTopicPartitionsRequest) -> list[str]:
    """The topics from the cursor on, in order. Raises `KafkaError` INVALID_REQUEST for a cursor that points nowhere."""
    cursor = request.cursor
    every = image.topics.by_name
    named: Iterable[str] = {each.name for each in request.topics} if request.topics else every
    if cursor is None:
        return sorted(named)
    if request.topics and cursor.topic_name not in named:
        why = f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    if cursor.partition_index < 0:
        why = f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor.partition_index}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    return sorted(name for name in named if name >= cursor.topic_name)


class _Page:
    """One answer that is being filled, from the image of one moment: topics come and go between two slices."""

    def __init__(self, context: Context, image: ClusterImage, request: DescribeTopicPartitionsRequest) -> None:
        self._context = context
        self._image = image
        self._cursor = request.cursor
        most = context.broker.config.integer("max.request.partition.size.limit")
        self._left = max(min(most, request.response_partition_limit), 1)
        self.topics = context.rows("topics")
        self.next_cursor: Cursor | None = None

    def fill(self, names: Iterable[str]) -> Steps[None]:
        """Take topics until the page is full. Those that are not there take no room in it, and there may be thousands."""
        for name in names:
            if self._left == 0:
                self.next_cursor = Cursor(topic_name=name, partition_index=0)
            else:
                yield from self.topics.add(self._topic(name))
            if self.next_cursor is not None:
                return

    def _topic(self, name: str) -> DescribeTopicPartitionsResponseTopic:
        topic = self._image.topics.by_name.get(name)
        if topic is None:
            absent = _failed(name, absence_code(name))
            absent.topic_authorized_operations = self._context.authorized_operations(ResourceType.TOPIC, name)
            return absent
        cursor = self._cursor
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        numbers = [number for number in sorted(topic.partitions) if number >= first]
        shown, rest = numbers[: self._left], numbers[self._left :]
        self._left -= len(shown)
        if rest:
            self.next_cursor = Cursor(topic_name=name, partition_index=rest[0])
        return DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=topic.topic_id,
            is_internal=is_internal(name),
            partitions=[self._partition(topic, number, topic.partitions[number]) for number in shown],
            topic_authorized_operations=self._context.authorized_operations(ResourceType.TOPIC, name),
        )

    def _partition(
        self, topic: TopicImage, number: int, state: PartitionImage
    ) -> DescribeTopicPartitionsResponsePartition:
        broker, listener = self._context.broker, self._context.connection.listener.name
        health = partition_health(broker, self._image.brokers, listener, topic.name, number, state)
        return DescribeTopicPartitionsResponsePartition(
            partition_index=number,
            leader_id=health.leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.in_sync_replicas),
            eligible_leader_replicas=list(state.eligible_leader_replicas),
            last_known_elr=list(state.last_known_eligible),
            offline_replicas=health.offline,
        )


def _failed(name: str | None, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, partitions=[])


def handle(context: Context, request: DescribeTopicPartitionsRequest) -> Pending:
    """One page, from the image."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: DescribeTopicPartitionsRequest) -> Steps[Message]:
    image = context.broker.image
    permitted: list[str] = []
    refused: list[str] = []
    for name in _names(image, request):
        (permitted if context.allows(name) else refused).append(name)
        yield None
    page = _Page(context, image, request)
    yield from page.fill(permitted)
    for name in refused if request.topics else ():
        yield from page.topics.add(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return DescribeTopicPartitionsResponse(topics=page.topics.close(), next_cursor=page.next_cursor)


def _failure(request: DescribeTopicPartitionsRequest, _version: int, error: KafkaError) -> Message:
    """There is no place for an error of the whole request; Kafka says it for each topic that was named."""
    return DescribeTopicPartitionsResponse(topics=[_failed(topic.name, error.code) for topic in request.topics])


API = Api(
    key=75,
    versions=(0, 0),
    request=DescribeTopicPartitionsRequest,
    response=DescribeTopicPartitionsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.TOPIC,
    failure=_failure,
)
