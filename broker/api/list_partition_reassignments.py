"""ListPartitionReassignments (key 46): the moves of partitions that are under way.

Behaviour: those that the metadata records. ``kafka-topics --describe`` asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _asked(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> Iterator[tuple[str, Mapping[int, PartitionImage]]]:
    by_name = image.topics.by_name
    if request.topics is None:
        yield from ((name, topic.partitions) for name, topic in by_name.items())
        return
    for wanted in request.topics:
        topic = by_name.get(wanted.name)
        if topic is not None:
            partitions = topic.partitions
            yield (
                wanted.name,
                {number: partitions[number] for number in wanted.partition_indexes if number in partitions},
            )


def handle(context: Context, request: ListPartitionReassignmentsRequest) -> Message:
    """Answered at once."""
    topics = []
    for name, partitions in _asked(context.broker.image, request):
        moving = [
            OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding_replicas),
                removing_replicas=list(state.removing_replicas),
            )
            for number, state in partitions.items()
            if state.adding_replicas or state.removing_replicas
        ]
        if moving:
            topics.append(OngoingTopicReassignment(name=name, partitions=moving))
    return ListPartitionReassignmentsResponse(topics=topics)


API = Api(
    key=46,
    versions=(0, 0),
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.CLUSTER,
    forwarded=True,
)
