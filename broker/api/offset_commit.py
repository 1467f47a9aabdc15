"""OffsetCommit (key 8): keep how far a group has read.

Behaviour: topics and partitions that do not exist, or that the caller may not read, are refused each for itself; the
rest goes to the group, and the answer leaves when the offsets are in the coordinator's log. Before version 9 a member
of a group that is gone hears ILLEGAL_GENERATION. Version 10 knows topics by their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import PENDING, Api, Operation, Pending, ResourceType
from stratalog.metadata.groups.offsets.topics import RefusedTopic, admit_topics, give_ids, give_names
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

_IDS_SINCE: Final = 10


class _WithRefused:
    """Answers with what the group says and with what it was not asked about."""

    def __init__(self, context: Context, request: OffsetCommitRequest, refused: Sequence[RefusedTopic]) -> None:
        self._context = context
        self._request = request
        self._refused = refused

    def respond(self, response: OffsetCommitResponse) -> None:
        """The group has taken the rest."""
        self._context.respond(_merged(response, self._refused))

    def fail(self, error: KafkaError) -> None:
        """The group has refused the rest."""
        answer = _failure(self._request, self._context.api_version, error)
        self._context.respond(_merged(answer, self._refused))


def _merged(response: OffsetCommitResponse, refused: Sequence[RefusedTopic]) -> OffsetCommitResponse:
    topics = {(topic.name, topic.topic_id): topic for topic in response.topics}
    for name, topic_id, indexes, code in refused:
        topic = topics.setdefault(
            (name, topic_id), OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=[])
        )
        topic.partitions += [OffsetCommitResponsePartition(partition_index=one, error_code=code) for one in indexes]
    return OffsetCommitResponse(topics=list(topics.values()))


def handle(context: Context, request: OffsetCommitRequest) -> Message | Pending:
    """The group answers; without anything to ask it, at once."""
    group_id = request.group_id
    if not context.allows(group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    image = context.broker.image
    by_id = context.api_version >= _IDS_SINCE
    (give_names if by_id else give_ids)(request.topics, image)
    request.topics, refused = admit_topics(
        request.topics, image, lambda name: context.allows(name, Operation.READ, ResourceType.TOPIC), by_id=by_id
    )
    groups = context.broker.groups
    if not refused:
        groups.submit(context, group_id, request)
    elif request.topics:
        groups.ask(_WithRefused(context, request, refused), context, group_id, request)
    else:
        return _merged(OffsetCommitResponse(topics=[]), refused)
    return PENDING


def _failure(request: OffsetCommitRequest, _version: int, error: KafkaError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error.code)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(
    key=8,
    versions=(2, 10),
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    handle=handle,
    operation=Operation.READ,
    resource=ResourceType.GROUP,
    failure=_failure,
)
