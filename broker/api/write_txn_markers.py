"""WriteTxnMarkers (key 27): end transactions in partitions led here, for a coordinator elsewhere or an administrator.

Behaviour: one outcome for each partition, when the marker is committed; a partition that is not hosted here gets
UNKNOWN_TOPIC_OR_PARTITION as in Kafka, one that is hosted and not led NOT_LEADER_OR_FOLLOWER. A coordinator that is fenced
hears where nothing of the producer is open: it may be the only one there is, with a disk that went back in time. ``kafka-transactions --abort`` ends a hanging transaction this way, with coordinator epoch -1 or that of
its producer.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.partition_markers import TransactionMarker
from stratalog.broker.requests.authorizer import CLUSTER_NAME, Operation, ResourceType
from stratalog.broker.requests.dispatch import PENDING, Api, Pending
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.coordination import Producer
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition

__all__ = ["API"]

_KEY: Final = 27
_GROUPS_NOT_SERVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of the group coordinator. Kafka's coordinators expect NOT_LEADER_OR_FOLLOWER, upon which they try again."""


class _Markers:
    """A request whose markers are being written."""

    def __init__(self, context: Context, response: WriteTxnMarkersResponse) -> None:
        self._context = context
        self._response = response
        self._missing = 1  # the request itself

    def expect(self) -> None:
        """One more."""
        self._missing += 1

    def written(
        self,
        where: TopicPartition,
        producer_id: int,
        result: WritableTxnMarkerPartitionResult,
        error: KafkaError | None,
    ) -> None:
        """One of them is committed, or not."""
        code = ErrorCode.NONE if error is None else error.code
        if code in _GROUPS_NOT_SERVED:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and self._context.broker.partitions.get(where) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            result.nothing_open = self._context.broker.transactions.markers.has_nothing_open(where, producer_id)
        result.error_code = code
        self.one_less()

    def one_less(self) -> None:
        """Answer when the last one is."""
        self._missing -= 1
        if not self._missing:
            self._context.respond(self._response)


def handle(context: Context, request: WriteTxnMarkersRequest) -> Pending:
    """Append every marker; the answer follows."""
    operations: tuple[Any, ...] = (Operation.CLUSTER_ACTION, Operation.ALTER)
    if not any(context.allows(CLUSTER_NAME, operation, ResourceType.CLUSTER) for operation in operations):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: WriteTxnMarkersRequest) -> Steps[Pending]:
    """A coordinator may end any number of transactions at once: other requests have their turns between them."""
    response = WriteTxnMarkersResponse(markers=[])
    markers = _Markers(context, response)
    target = context.broker.transactions.markers
    for asked in request.markers:
        answered = _result(asked, 0)
        response.markers.append(answered)
        marker = TransactionMarker(
            Producer(asked.producer_id, asked.producer_epoch),
            asked.transaction_result,
            asked.coordinator_epoch,
            asked.transaction_version,
        )
        for topic in answered.topics:
            for result in topic.partitions:
                markers.expect()
                where = TopicPartition(topic.name, result.partition_index)
                target.write(where, marker, partial(markers.written, where, asked.producer_id, result))
                yield None
    markers.one_less()
    return PENDING


def _result(marker: WritableTxnMarker, code: int) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
                    for number in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


def _failure(request: WriteTxnMarkersRequest, _version: int, error: KafkaError) -> Message:
    return WriteTxnMarkersResponse(markers=[_result(marker, int(error.code)) for marker in request.markers])


API = Api(
    key=_KEY,
    versions=(1, 2),
    request=WriteTxnMarkersRequest,
    response=WriteTxnMarkersResponse,
    handle=handle,
    operation=Operation.ANY,
    resource=ResourceType.CLUSTER,
    failure=_failure,
    of_nodes=lambda _request, _version: True,
)
