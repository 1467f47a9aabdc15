"""DeleteTopics (key 20): topics by name or, from version 6 on, by id.

Behaviour: the answer leaves when the deletion is on disk in the metadata log; the files follow a little later. What
a tiered topic has in the bucket goes to the trash, and from the bucket when stratalog.trash.grace.ms has passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.quotas import mutation_permit
from stratalog.broker.slices import Steps
from stratalog.metadata.controller import Failure, deleting_topics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from stratalog.wire.schema import Message
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = ["API"]

_BY_STATE_SINCE: Final = 6
_STRICT_SINCE: Final = 5


def _named(request: DeleteTopicsRequest, version: int) -> list[tuple[str | None, Uuid]]:
    if version >= _BY_STATE_SINCE:
        return [(state.name, state.topic_id) for state in request.topics]
    return [(name, ZERO_UUID) for name in request.topic_names]


async def _delete(context: RequestContext, request: DeleteTopicsRequest) -> Steps[Message]:
    broker = context.broker
    targets = _named(request, context.api_version)
    allowed: list[tuple[str | None, Uuid]] = []
    refused: list[tuple[str | None, Uuid]] = []
    for target in targets:
        (allowed if _may(context, *target) else refused).append(target)
    enabled = broker.config.boolean("delete.topic.enable")
    try:
        permit = mutation_permit(context, _STRICT_SINCE)
        outcomes = await broker.control.execute(
            lambda image: deleting_topics(image, allowed, enabled=enabled, permit=permit)
        )
    except KafkaError as error:
        outcomes = tuple((name, topic_id, error) for name, topic_id in allowed)
    return _answer(context, outcomes, refused)


def _answer(
    context: RequestContext,
    outcomes: Iterable[tuple[str | None, Uuid, Failure | KafkaError | None]],
    refused: Iterable[tuple[str | None, Uuid]],
) -> Steps[Message]:
    results = context.rows("responses")
    for name, topic_id, failure in outcomes:
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        if failure is not None:
            result.error_code, result.error_message = failure.code, failure.message
        yield from results.add(result)
    for name, topic_id in refused:
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        yield from results.add(DeletableTopicResult(name=name, topic_id=topic_id, error_code=denied))
    return DeleteTopicsResponse(responses=results.close())


def _may(context: RequestContext, name: str | None, topic_id: Uuid) -> bool:
    topic = None if name is not None else context.broker.image.topics.by_id.get(topic_id)
    known = name if topic is None else topic.name
    return known is None or context.allows(known)


def handle(context: RequestContext, request: DeleteTopicsRequest) -> Pending:
    """Carried out beside the connection."""
    return context.run(_delete(context, request))


def _failure(request: DeleteTopicsRequest, version: int, error: KafkaError) -> Message:
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
            for name, topic_id in _named(request, version)
        ]
    )


API = Api(
    key=20,
    versions=(1, 6),
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    handle=handle,
    operation=Operation.DELETE,
    resource=ResourceType.TOPIC,
    failure=_failure,
)
