"""AlterReplicaLogDirs (key 34): a replica stays in the log directory where it was created.

Behaviour: a partition of another broker is REPLICA_NOT_AVAILABLE. Naming the directory where a replica is already is no error, as in Kafka. Another directory of this broker
is refused with INVALID_REQUEST, because moves are not served yet; one that is none, with LOG_DIR_NOT_FOUND.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
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


def _outcome(context: Context, path: str, partition: TopicPartition) -> ErrorCode:
    broker = context.broker
    if path not in {directory.path for directory in broker.directories.all}:
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        led = broker.partitions.by_name(*partition)
    except KafkaError as error:
        elsewhere = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.REPLICA_NOT_AVAILABLE if elsewhere else error.code  # as Kafka keeps it for old clients
    if led.partition.directory.offline is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE if led.partition.directory.path == path else ErrorCode.INVALID_REQUEST


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


def handle(context: Context, request: AlterReplicaLogDirsRequest) -> Message:
    """Answered at once."""
    return _answer({partition: _outcome(context, path, partition) for path, partition in _named(request)})


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
