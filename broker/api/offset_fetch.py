"""OffsetFetch (key 9): how far groups have read.

Behaviour: each group answers for itself, from offsets that are in the coordinator's log; an offset that is not there is
-1. With ``require_stable`` an offset that an open transaction may change is UNSTABLE_OFFSET_COMMIT. A request for all
topics gets only those that the caller may describe. Before version 8 there is one group, whose error stands beside the
topics, in version 1 in each partition. Version 10 knows topics by their ids and passes over those that have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Awaited, Steps
from stratalog.metadata.groups.offsets.requests import FetchOffsets, WantedTopic
from stratalog.metadata.groups.offsets.topics import give_ids, give_names
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
    """The part of a request that is about one group."""

    def __init__(self, context: Context, wanted: OffsetFetchRequestGroup, *, stable: bool) -> None:
        self._context = context
        self._wanted = wanted
        self._stable = stable
        self._by_id = context.api_version >= _IDS_SINCE
        self._refused: list[OffsetFetchResponseTopics] = []

    def answer(self) -> Steps[OffsetFetchResponseGroup]:
        """Ask the group for what the caller may know."""
        wanted, context = self._wanted, self._context
        awaited = Awaited(lambda error: _failed(wanted, error))
        if context.allows(wanted.group_id):
            part = FetchOffsets(
                group_id=wanted.group_id,
                topics=None if wanted.topics is None else self._admitted(wanted.topics),
                member_id=wanted.member_id,
                member_epoch=wanted.member_epoch,
                require_stable=self._stable,
            )
            context.broker.groups.ask(awaited, context, wanted.group_id, part)
        else:
            awaited.fail(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        yield awaited
        answer: OffsetFetchResponseGroup = awaited.answer.groups[0]
        if wanted.topics is None and not answer.error_code:
            yield from self._keep_visible(answer)
        if not answer.error_code:
            answer.topics += self._refused
        return answer

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

    def _keep_visible(self, answer: OffsetFetchResponseGroup) -> Steps[None]:
        """Keep, of all topics, only those that the caller may describe and, where ids are answered, that have one."""
        image = self._context.broker.image
        if self._by_id:
            give_ids(answer.topics, image)
            yield None
        visible = []
        for topic in answer.topics:
            if self._sees(topic.name) and (not self._by_id or topic.topic_id != ZERO_UUID):
                visible.append(topic)
            yield None
        answer.topics = visible

    def _sees(self, topic: str) -> bool:
        return self._context.allows(topic, Operation.DESCRIBE, ResourceType.TOPIC)


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


def _of_one(answer: OffsetFetchResponseGroup, topics: Any) -> OffsetFetchResponse:
    """The answer before version 8; ``topics`` are those of the group in its form."""
    return OffsetFetchResponse(topics=topics, error_code=answer.error_code)


def _old_topics(
    answer: OffsetFetchResponseGroup, wanted: OffsetFetchRequestGroup, version: int
) -> Iterator[OffsetFetchResponseTopic]:
    """The topics of a group in the form before version 8; in version 1 an error of the group stands in each partition."""
    topics = answer.topics
    if answer.error_code and version < _ERROR_OF_THE_WHOLE_SINCE:
        topics = [_refused(topic, ErrorCode(answer.error_code)) for topic in wanted.topics or ()]
    for topic in topics:
        yield OffsetFetchResponseTopic(
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


def handle(context: Context, request: OffsetFetchRequest) -> Pending:
    """The groups answer, one after the other; a group whose topics are all
    asked for again is answered once: it may be large.
    """
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: OffsetFetchRequest) -> Steps[Message]:
    version = context.api_version
    groups = _groups(request, version)
    if version < _GROUPS_SINCE:
        answer = yield from _OneGroup(context, groups[0], stable=request.require_stable).answer()
        topics = context.rows("topics")
        for topic in _old_topics(answer, groups[0], version):
            yield from topics.add(topic)
        return _of_one(answer, topics.close())
    rows = context.rows("groups")
    whole: set[str] = set()
    for wanted in groups:
        if wanted.topics is None:
            if wanted.group_id in whole:
                continue
            whole.add(wanted.group_id)
        yield from rows.add((yield from _OneGroup(context, wanted, stable=request.require_stable).answer()))
    return OffsetFetchResponse(groups=rows.close())


def _failure(request: OffsetFetchRequest, version: int, error: KafkaError) -> Message:
    groups = _groups(request, version)
    answers = [_failed(wanted, error).groups[0] for wanted in groups]
    if version < _GROUPS_SINCE:
        return _of_one(answers[0], list(_old_topics(answers[0], groups[0], version)))
    return OffsetFetchResponse(groups=answers)


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
