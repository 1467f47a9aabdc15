"""ConsumerGroupDescribe (key 69): consumer groups with their members, their assignments and targets.

Each group is asked of its shard; the answer leaves when the last one is there. A classic group is GROUP_ID_NOT_FOUND
here: clients then ask DescribeGroups.
"""

from __future__ import annotations

from functools import partial

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Awaited, Steps
from stratalog.metadata.groups.consumer.requests import DescribeConsumerGroup
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _check_topics(context: Context, group: DescribedGroup) -> Steps[None]:
    """A group with a topic that the caller may not know of is described as an error."""
    seen: set[str] = set()
    for member in group.members:
        names = set(member.subscribed_topic_names)
        names.update(part.topic_name for part in member.assignment.topic_partitions)
        names.update(part.topic_name for part in member.target_assignment.topic_partitions)
        for name in names - seen:
            if not context.allows(name, Operation.DESCRIBE, ResourceType.TOPIC):
                group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                group.error_message = "The group has described topic(s) that the client is not authorized to describe."
                group.members = []
                return
        seen |= names
        yield None


def _failed(group_id: str, error: KafkaError) -> ConsumerGroupDescribeResponse:
    group = DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
    return ConsumerGroupDescribeResponse(groups=[group])


def handle(context: Context, request: ConsumerGroupDescribeRequest) -> Pending:
    """Ask for every group; one that is named again is answered once, or a small frame would ask much."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: ConsumerGroupDescribeRequest) -> Steps[Message]:
    groups = context.rows("groups")
    for group_id in dict.fromkeys(request.group_ids):
        awaited = Awaited(partial(_failed, group_id))
        if not group_id:
            awaited.fail(KafkaError(ErrorCode.INVALID_GROUP_ID))
        elif not context.allows(group_id):
            awaited.fail(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        else:
            context.broker.groups.ask(awaited, context, group_id, DescribeConsumerGroup(group_id))
        yield awaited
        group = awaited.answer.groups[0]
        if not group.error_code:
            yield from _check_topics(context, group)
        if not group.error_code and request.include_authorized_operations:
            group.authorized_operations = context.authorized_operations(ResourceType.GROUP, group_id)
        yield from groups.add(group)
    return ConsumerGroupDescribeResponse(groups=groups.close())


def _failure(request: ConsumerGroupDescribeRequest, _version: int, error: KafkaError) -> Message:
    return ConsumerGroupDescribeResponse(
        groups=[
            DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
            for group_id in request.group_ids
        ]
    )


API = Api(
    key=69,
    versions=(0, 1),
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.GROUP,
    failure=_failure,
)
