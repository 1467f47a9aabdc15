"""DeleteTopics (key 20): topics by name or, from version 6 on, by id.

Behaviour: the answer leaves when the deletion is on disk in the metadata log; the files follow a little later. The
archive of a tiered topic goes to the trash, and from the bucket when stratalog.trash.grace.ms has passed.
DELETE on the cluster is DELETE on all topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.authorizer import CLUSTER_NAME
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.requests.quotas import mutation_permit
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.controller.controller import Failure, deleting_topics
from stratalog.metadata.image.decision import charged_once
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


def _refusal(context: Context, name: str | None, topic_id: Uuid) -> DeletableTopicResult | None:
    """The reason why the caller may not delete this; only callers that may
    describe the topic learn its name and whether it exists.
    """
    known = context.broker.image.topics.by_id.get(topic_id) if name is None else None
    meant = name if known is None else known.name
    if meant is None and topic_id != ZERO_UUID:  # said here, as below: it may be made before this command has its turn
        return DeletableTopicResult(
            name=None,
            topic_id=topic_id,
            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            error_message="This server does not host this topic ID.",
        )
    if meant is None or context.allows(meant):
        return None
    described = context.allows(meant, Operation.DESCRIBE)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if name is None:
        return DeletableTopicResult(name=meant if described else None, topic_id=topic_id, error_code=code)
    if described and name not in context.broker.image.topics.by_name:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # said here: a topic made meanwhile is not for the caller to delete
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code)


async def _delete(context: Context, request: DeleteTopicsRequest) -> Steps[Message]:
    broker = context.broker
    allowed: list[tuple[str | None, Uuid]] = []
    refused: list[DeletableTopicResult] = []
    on_cluster = context.allows(CLUSTER_NAME, Operation.DELETE, ResourceType.CLUSTER)
    for target in _named(request, context.api_version):
        refusal = None if on_cluster else _refusal(context, *target)
        if refusal is None:
            allowed.append(target)
        else:
            refused.append(refusal)
    enabled = broker.config.boolean("delete.topic.enable")
    try:
        permit = charged_once(mutation_permit(context, _STRICT_SINCE))
        deleted = await broker.control.execute(
            lambda image: deleting_topics(image, allowed, enabled=enabled, permit=permit()),
            source=context.connection,
            size=len(allowed),
        )
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise  # the request as a whole is for another node
        return _answer(context, [(name, topic_id, error) for name, topic_id in allowed], refused)
    return _answer(context, deleted, refused)


def _answer(
    context: Context,
    outcomes: Iterable[tuple[str | None, Uuid, Failure | KafkaError | None]],
    refused: Iterable[DeletableTopicResult],
) -> Steps[Message]:
    results = context.rows("responses")
    for name, topic_id, failure in outcomes:
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        if failure is not None:
            result.error_code, result.error_message = failure.code, failure.message
        yield from results.add(result)
    for refusal in refused:
        yield from results.add(refusal)
    return DeleteTopicsResponse(responses=results.close())


def handle(context: Context, request: DeleteTopicsRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
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
    forwarded=True,
)
