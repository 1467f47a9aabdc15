"""AlterPartitionReassignments (key 45): where a cluster of one broker keeps its partitions can only stay as it is.

Behaviour: naming the brokers that hold a partition already is no error, as in Kafka. Others are refused with
INVALID_REPLICA_ASSIGNMENT: there are none, or moves between them are not served. No move is under way that could be
stopped: NO_REASSIGNMENT_IN_PROGRESS.
"""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _problem(image: ClusterImage, replicas: Sequence[int]) -> str | None:
    """Why no partition could be on these brokers, in Kafka's words; None where one could."""
    if not replicas:
        return "an empty replica list"
    before: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers.brokers:
            return f"broker {broker_id}, but no such broker is registered"
        if broker_id == before:
            return f"the broker {broker_id} more than once"
        before = broker_id
    return None


def _check(image: ClusterImage, topic: str, number: int, replicas: Sequence[int] | None) -> None:
    """Raises `KafkaError` unless the partition is held by just these brokers."""
    found = image.topics.by_name.get(topic)
    state = None if found is None else found.partitions.get(number)
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    if state is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{number}.")
    if replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    problem = _problem(image, replicas)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}.")
    if list(replicas) != list(state.replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{topic}-{number} is on {list(state.replicas)}; moves are not served.",
        )


def _partition(
    image: ClusterImage, topic: str, number: int, replicas: list[int] | None
) -> ReassignablePartitionResponse:
    try:
        _check(image, topic, number, replicas)
    except KafkaError as error:
        return ReassignablePartitionResponse(partition_index=number, error_code=error.code, error_message=error.message)
    return ReassignablePartitionResponse(partition_index=number)


def handle(context: Context, request: AlterPartitionReassignmentsRequest) -> Message:
    """Answered at once."""
    image = context.broker.image
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _partition(image, topic.name, one.partition_index, one.replicas) for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


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
)
