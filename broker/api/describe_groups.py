"""DescribeGroups (key 15): state and members of classic groups.

Behaviour: a group that is not there is dead, from version 6 on GROUP_ID_NOT_FOUND (KIP-1043); so is a consumer group,
which ConsumerGroupDescribe describes.
"""

from __future__ import annotations

from typing import Any

from stratalog.broker.context import RequestContext
from stratalog.broker.coordinators.gather import Gather
from stratalog.broker.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.groups.group_events import DescribeGroup
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: RequestContext, request: DescribeGroupsRequest) -> Pending:
    """Ask the shard of each group."""

    def assemble(answers: list[Any]) -> Message:
        described = [answer.groups[0] for answer in answers]
        if request.include_authorized_operations:
            for one in described:
                if not one.error_code:
                    one.authorized_operations = context.authorized_operations(ResourceType.GROUP, one.group_id)
        return DescribeGroupsResponse(groups=described)

    gather = Gather(context, assemble)
    for group_id in request.groups:
        if context.allows(group_id):
            context.broker.groups.ask(gather.part(_failed(group_id)), context, group_id, DescribeGroup())
        else:
            gather.answered(_failed(group_id)(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    return gather.close()


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
