"""OffsetFetch (key 9): how far groups have read.

Behaviour: each group answers for itself, from offsets that are in the coordinator's log; an offset that is not there
is -1. With ``require_stable`` an offset that an open transaction may change is UNSTABLE_OFFSET_COMMIT. Of all topics
only those are told that the caller may describe. Before version 8 there is one group, whose error stands beside the
topics, in version 1 in each partition. Version 10 knows topics by their ids and passes over those that have none.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.context import RequestContext
from stratalog.broker.coordinators.gather import Gather
from stratalog.broker.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.groups.offset_requests import FetchOffsets, WantedTopic
from stratalog.metadata.groups.offset_topics import give_ids, give_names
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import ZERO_UUID

__all__ = ["API"]

_ERROR_OF_THE_WHOLE_SINCE: Final = 2
_GROUPS_SINCE: Final = 8
_IDS_SINCE: Final = 10


class _OneGroup:
    """The part of a request that is about one group, as its token."""

    def __init__(
        self, gather: Gather, context: RequestContext, wanted: OffsetFetchRequestGroup, *, stable: bool
    ) -> None:
        self._part = gather.part(lambda error: _failed(wanted, error))
        self._context = context
        self._wanted = wanted
        self._stable = stable
        self._by_id = context.api_version >= _IDS_SINCE
        self._refused: list[OffsetFetchResponseTopics] = []
        self.fail = self._part.fail

    def ask(self) -> None:
        """Ask the group for what the caller may know."""
        wanted, context = self._wanted, self._context
        if not context.allows(wanted.group_id):
            self.fail(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        part = FetchOffsets(
            group_id=wanted.group_id,
            topics=None if wanted.topics is None else self._admitted(wanted.topics),
            member_id=wanted.member_id,
            member_epoch=wanted.member_epoch,
            require_stable=self._stable,
        )
        context.broker.groups.ask(self, context, wanted.group_id, part)

    def _admitted(self, topics: list[OffsetFetchRequestTopics]) -> list[WantedTopic]:
        if self._by_id:
            give_names(topics, self._context.broker.image)
        admitted = []
        for topic in topics:
            if self._by_id and not topic.name:
                self._refused.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
            elif not self._sees(topic.name):
                self._refused.append(_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            else:
                admitted.append(WantedTopic(topic.name, topic.partition_indexes, topic.topic_id))
        return admitted

    def _sees(self, topic: str) -> bool:
        return self._context.allows(topic, Operation.DESCRIBE, ResourceType.TOPIC)

    def respond(self, response: OffsetFetchResponse) -> None:
        """The group has answered."""
        (answer,) = response.groups
        if self._wanted.topics is None:
            answer.topics = [topic for topic in answer.topics if self._sees(topic.name)]
            if self._by_id:
                give_ids(answer.topics, self._context.broker.image)
                answer.topics = [topic for topic in answer.topics if topic.topic_id != ZERO_UUID]
        answer.topics += self._refused
        self._part.respond(response)


def _failed(wanted: OffsetFetchRequestGroup, error: KafkaError) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=error.code)])


def _refused(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=code)
            for index in topic.partition_indexes
        ],
    )


def _groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The groups of a request; the only one of a version before 8 in the form of later ones."""
    if version >= _GROUPS_SINCE:
        return request.groups
    topics = request.topics
    named = None
    if topics is not None:
        named = [OffsetFetchRequestTopics(name=one.name, partition_indexes=one.partition_indexes) for one in topics]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=named)]


def _response(parts: list[OffsetFetchResponse], request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    """The answer to the request, in the form of its version, from those of its groups."""
    answers = [answer for part in parts for answer in part.groups]
    if version >= _GROUPS_SINCE:
        return OffsetFetchResponse(groups=answers)
    (answer,) = answers
    if answer.error_code and version < _ERROR_OF_THE_WHOLE_SINCE:
        wanted = _groups(request, version)[0].topics or ()
        answer.topics = [_refused(topic, ErrorCode(answer.error_code)) for topic in wanted]
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
                for one in topic.partitions
            ],
        )
        for topic in answer.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=answer.error_code)


def handle(context: RequestContext, request: OffsetFetchRequest) -> Pending:
    """The groups answer."""
    version = context.api_version
    gather = Gather(context, lambda answers: _response(answers, request, version))
    for wanted in _groups(request, version):
        _OneGroup(gather, context, wanted, stable=request.require_stable).ask()
    return gather.close()


def _failure(request: OffsetFetchRequest, version: int, error: KafkaError) -> Message:
    return _response([_failed(wanted, error) for wanted in _groups(request, version)], request, version)


API = Api(
    key=9,
    versions=(1, 10),
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.GROUP,
    failure=_failure,
)
