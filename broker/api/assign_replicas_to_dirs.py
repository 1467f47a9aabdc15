"""AssignReplicasToDirs (key 73): a broker tells the active controller in which directories its replicas lie (KIP-858).

Behaviour: replicas are noted each for itself: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, and NOT_LEADER_OR_FOLLOWER for
a partition that the broker does not hold. Below level 17 of ``metadata.version`` records have no place for it:
UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterable

from stratalog.broker.api.controller_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import Placed, assigning_replicas_to_directories
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedDirectoryResult,
    AssignedPartitionResult,
    AssignedTopicResult,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _placed(directories: Iterable[AssignedDirectory]) -> tuple[Placed, ...]:
    return tuple(
        Placed(PartitionKey(topic.topic_id, partition.partition_index), directory.id)
        for directory in directories
        for topic in directory.topics
        for partition in topic.partitions
    )


def _results(directories: Iterable[AssignedDirectory], codes: Iterable[ErrorCode]) -> list[AssignedDirectoryResult]:
    """The codes in the places of what was asked."""
    each = iter(codes)
    return [
        AssignedDirectoryResult(
            id=directory.id,
            topics=[
                AssignedTopicResult(
                    topic_id=topic.topic_id,
                    partitions=[
                        AssignedPartitionResult(partition_index=partition.partition_index, error_code=next(each))
                        for partition in topic.partitions
                    ],
                )
                for topic in directory.topics
            ],
        )
        for directory in directories
    ]


async def _assign(context: Context, request: AssignReplicasToDirsRequest) -> Message:
    broker = context.broker
    placed = _placed(request.directories)
    codes = await broker.control.execute(
        lambda image: assigning_replicas_to_directories(
            broker.cluster_view(image), request.broker_id, request.broker_epoch, placed
        ),
        source=context.connection,
        size=len(placed),
    )
    return AssignReplicasToDirsResponse(directories=_results(request.directories, codes))


def handle(context: Context, request: AssignReplicasToDirsRequest) -> Pending:
    """Runs as a task: waits for the metadata log."""
    return context.run(_assign(context, request))


API = Api(
    key=73,
    versions=(0, 0),
    request=AssignReplicasToDirsRequest,
    response=AssignReplicasToDirsResponse,
    handle=handle,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
)
