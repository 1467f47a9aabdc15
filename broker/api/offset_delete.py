"""OffsetDelete (key 47): forget committed offsets of a group in topics that none of its members reads.

Behaviour: topics and partitions that do not exist, or that the caller may not read, are refused each for itself; an
error of the group stands alone. The answer leaves when the tombstones are in the coordinator's log.
"""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import PENDING, Api, Operation, Pending, ResourceType
from stratalog.metadata.groups.offsets.topics import RefusedTopic, admit_topics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


class _WithRefused:
    """Answers with what the group says and with what it was not asked about; an error of the group is all."""

    def __init__(self, context: Context, refused: Sequence[RefusedTopic]) -> None:
        self._context = context
        self._refused = refused
        self.fail = context.fail

    def respond(self, response: OffsetDeleteResponse) -> None:
        """The group has dealt with the rest."""
        topics = {topic.name: topic for topic in response.topics}
        for name, _, indexes, code in self._refused:
            topic = topics.setdefault(name, OffsetDeleteResponseTopic(name=name, partitions=[]))
            topic.partitions += [OffsetDeleteResponsePartition(partition_index=one, error_code=code) for one in indexes]
        self._context.respond(OffsetDeleteResponse(topics=list(topics.values())))


def handle(context: Context, request: OffsetDeleteRequest) -> Message | Pending:
    """The group answers, also when nothing is left to ask it about: it may not exist."""
    group_id = request.group_id
    if not context.allows(group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    request.topics, refused = admit_topics(
        request.topics,
        context.broker.image,
        lambda name: context.allows(name, Operation.READ, ResourceType.TOPIC),
    )
    groups = context.broker.groups
    groups.ask(_WithRefused(context, refused), context, group_id, request)
    return PENDING


API = Api(
    key=47,
    versions=(0, 0),
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
    handle=handle,
    operation=Operation.DELETE,
    resource=ResourceType.GROUP,
)
