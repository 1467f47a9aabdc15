"""AlterReplicaLogDirs (key 34): replicas move to other log directories of this broker (KIP-113).

Behaviour: answered at once; DescribeLogDirs shows how far a move is. Naming the directory where a replica lies already is no
error, and cancels a move of it. A partition of another broker is REPLICA_NOT_AVAILABLE, and is begun in that directory if it
comes here. A directory that is none of this broker's is LOG_DIR_NOT_FOUND; while one is offline nothing moves: KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition

__all__ = ["API"]


def _answer(outcomes: dict[tuple[str, int], ErrorCode]) -> Message:
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, number), code in outcomes.items():
        topics.setdefault(topic, []).append(AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code))
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=found) for name, found in topics.items()]
    )


def _named(request: AlterReplicaLogDirsRequest) -> list[tuple[str, TopicPartition]]:
    return [
        (wanted.path, TopicPartition(topic.name, number))
        for wanted in request.dirs
        for topic in wanted.topics
        for number in topic.partitions
    ]


def _steps(context: Context, request: AlterReplicaLogDirsRequest) -> Steps[Message | Pending]:
    outcomes: dict[tuple[str, int], ErrorCode] = {}
    for path, partition in _named(request):
        outcomes[partition] = context.broker.moves.ask(partition, path)
        yield None
    return _answer(outcomes)


def handle(context: Context, request: AlterReplicaLogDirsRequest) -> Pending:
    """In steps: a request may name thousands of replicas."""
    return context.sliced(_steps(context, request))


def _failure(request: AlterReplicaLogDirsRequest, version: int, error: KafkaError) -> Message:
    del version
    return _answer({partition: error.code for _, partition in _named(request)})


API = Api(
    key=34,
    versions=(1, 2),
    request=AlterReplicaLogDirsRequest,
    response=AlterReplicaLogDirsResponse,
    handle=handle,
    operation=Operation.ALTER,
    resource=ResourceType.CLUSTER,
    failure=_failure,
)
