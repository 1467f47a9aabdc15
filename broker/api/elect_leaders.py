"""ElectLeaders (key 43): hand leadership to preferred replicas, or to any that is alive.

Behaviour: where every partition has one replica, which leads, each that is named is ELECTION_NOT_NEEDED, and a request that
names none is answered with nothing.
"""

from __future__ import annotations

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import ElectionType, electing_leaders
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition

__all__ = ["API"]

_TYPE_SINCE = 1


def _named(request: ElectLeadersRequest) -> list[TopicPartition] | None:
    if request.topic_partitions is None:
        return None
    return [TopicPartition(each.topic, partition) for each in request.topic_partitions for partition in each.partitions]


async def _elect(context: Context, request: ElectLeadersRequest) -> Message:
    kind = request.election_type if context.api_version >= _TYPE_SINCE else ElectionType.PREFERRED
    named = _named(request)
    outcomes = await context.broker.control.execute(
        lambda image: electing_leaders(context.broker.cluster_view(image), kind, named),
        source=context.connection,
        size=len(context.broker.image.topics.by_id) if named is None else len(named),
    )
    topics: dict[str, list[PartitionResult]] = {}
    for (topic, partition), failure in outcomes:
        result = PartitionResult(partition_id=partition)
        if failure is not None:
            result.error_code, result.error_message = failure.code, failure.message
        topics.setdefault(topic, []).append(result)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=results) for topic, results in topics.items()
        ]
    )


def handle(context: Context, request: ElectLeadersRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
    return context.run(_elect(context, request))


def _failure(request: ElectLeadersRequest, _version: int, error: KafkaError) -> Message:
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=each.topic,
                partition_result=[
                    PartitionResult(partition_id=partition, error_code=error.code, error_message=error.message)
                    for partition in each.partitions
                ],
            )
            for each in request.topic_partitions or ()
        ],
    )


API = Api(
    key=43,
    versions=(0, 2),
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
    handle=handle,
    operation=Operation.ALTER,
    resource=ResourceType.CLUSTER,
    failure=_failure,
    forwarded=True,
)
