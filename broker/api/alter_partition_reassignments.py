"""AlterPartitionReassignments (key 45): move replicas to other brokers, or stop moves that are under way (KIP-455).

Behaviour: each partition is answered for itself. While a move runs, the replicas are the old and the new ones; it ends by
itself when the new ones are in sync. Naming the brokers that hold a partition already is no error, as in Kafka. Where no move
runs, there is none to stop: NO_REASSIGNMENT_IN_PROGRESS.
"""

from __future__ import annotations

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import Move, reassigning_partitions
from stratalog.metadata.image.decision import Failure
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition

__all__ = ["API"]


def _moves(request: AlterPartitionReassignmentsRequest) -> tuple[Move, ...]:
    return tuple(
        Move(TopicPartition(topic.name, one.partition_index), None if one.replicas is None else tuple(one.replicas))
        for topic in request.topics
        for one in topic.partitions
    )


def _result(number: int, failure: Failure | None) -> ReassignablePartitionResponse:
    if failure is None:
        return ReassignablePartitionResponse(partition_index=number)
    return ReassignablePartitionResponse(partition_index=number, error_code=failure.code, error_message=failure.message)


async def _alter(context: Context, request: AlterPartitionReassignmentsRequest) -> Message:
    broker = context.broker
    moves = _moves(request)
    failures = await broker.control.execute(
        lambda image: reassigning_partitions(
            broker.cluster_view(image),
            moves,
            factor_may_change=request.allow_replication_factor_change,
        ),
        source=context.connection,
        size=len(moves),
    )
    each = iter(failures)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[_result(one.partition_index, next(each)) for one in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def handle(context: Context, request: AlterPartitionReassignmentsRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
    return context.run(_alter(context, request))


def _failure(request: AlterPartitionReassignmentsRequest, _version: int, error: KafkaError) -> Message:
    """The error of the whole request, and for each partition, as Kafka gives it."""
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=one.partition_index, error_code=error.code, error_message=error.message
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


API = Api(
    key=45,
    versions=(0, 1),
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
    handle=handle,
    operation=Operation.ALTER,
    resource=ResourceType.CLUSTER,
    failure=_failure,
    forwarded=True,
)
