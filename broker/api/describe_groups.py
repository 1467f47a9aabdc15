"""DescribeGroups (key 15): state and members of classic groups.

Behaviour: a group that is not there is dead, from version 6 on GROUP_ID_NOT_FOUND (KIP-1043); so is a consumer group,
which ConsumerGroupDescribe describes.
"""

from __future__ import annotations

from typing import Any

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Awaited, Steps
from stratalog.metadata.groups.group_events import DescribeGroup
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: Context, request: DescribeGroupsRequest) -> Pending:
    """Ask the shard of each group; one that is named again is answered once, or a small frame would ask much."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: DescribeGroupsRequest) -> Steps[Message]:
    groups = context.rows("groups")
    for group_id in dict.fromkeys(request.groups):
        awaited = Awaited(_failed(group_id))
        if context.allows(group_id):
            context.broker.groups.ask(awaited, context, group_id, DescribeGroup())
        else:
            awaited.fail(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        yield awaited
        described = awaited.answer.groups[0]
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = context.authorized_operations(ResourceType.GROUP, group_id)
        yield from groups.add(described)
    return DescribeGroupsResponse(groups=groups.close())


def _failed(group_id: str) -> Any:
    def answer(error: KafkaError) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(
            groups=[DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)]
        )

    return answer


def _failure(request: DescribeGroupsRequest, _version: int, error: KafkaError) -> Message:
    groups = [
        DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
        for group_id in request.groups
    ]
    return DescribeGroupsResponse(groups=groups)


API = Api(
    key=15,
    versions=(0, 6),
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.GROUP,
    failure=_failure,
)
