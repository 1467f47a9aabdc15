"""DeleteGroups (key 42): delete groups without members, and their offsets.

Behaviour: NON_EMPTY_GROUP while there are members, GROUP_ID_NOT_FOUND for one that is not there; each answered when its
deletion is committed.
"""

from __future__ import annotations

from typing import Any

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Awaited, Steps
from stratalog.metadata.groups.group_events import DeleteGroup
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: Context, request: DeleteGroupsRequest) -> Pending:
    """Ask the shard of each group, all of them before the first answer: their records are written together."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: DeleteGroupsRequest) -> Steps[Message]:
    asked = []
    for group_id in dict.fromkeys(request.groups_names):
        awaited = Awaited(_failed(group_id))
        if context.allows(group_id):
            context.broker.groups.ask(awaited, context, group_id, DeleteGroup())
        else:
            awaited.fail(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        asked.append(awaited)
        yield None
    results = context.rows("results")
    for awaited in asked:
        yield awaited
        yield from results.add(awaited.answer.results[0])
    return DeleteGroupsResponse(results=results.close())


def _failed(group_id: str) -> Any:
    def answer(error: KafkaError) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group_id, error_code=error.code)])

    return answer


def _failure(request: DeleteGroupsRequest, _version: int, error: KafkaError) -> Message:
    results = [DeletableGroupResult(group_id=group_id, error_code=error.code) for group_id in request.groups_names]
    return DeleteGroupsResponse(results=results)


API = Api(
    key=42,
    versions=(0, 2),
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    handle=handle,
    operation=Operation.DELETE,
    resource=ResourceType.GROUP,
    failure=_failure,
)
