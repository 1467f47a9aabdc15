"""ConsumerGroupDescribe (key 69): consumer groups with their members, what these have and what they shall have.

Each group is asked of its shard; the answer leaves when the last one is there. A classic group is GROUP_ID_NOT_FOUND
here: clients then ask DescribeGroups.
"""

from __future__ import annotations

from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import PENDING, Api, Operation, Pending, ResourceType
from stratalog.metadata.groups.consumer_requests import DescribeConsumerGroup
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


class _Gathering:
    """The answers of many groups, until all are there."""

    def __init__(self, context: RequestContext, request: ConsumerGroupDescribeRequest) -> None:
        self._context = context
        self._with_operations = request.include_authorized_operations
        self._found: list[DescribedGroup | None] = [None] * len(request.group_ids)
        self._missing = len(self._found)

    def take(self, place: int, group: DescribedGroup) -> None:
        """One answer, in the place of its question."""
        if not group.error_code:
            self._check_topics(group)
        if not group.error_code and self._with_operations:
            group.authorized_operations = self._context.authorized_operations(ResourceType.GROUP, group.group_id)
        self._found[place] = group
        self._missing -= 1
        if not self._missing:
            groups = [one for one in self._found if one is not None]
            self._context.respond(ConsumerGroupDescribeResponse(groups=groups))

    def _check_topics(self, group: DescribedGroup) -> None:
        """A group with a topic that the caller may not know of is described as an error."""
        names = {name for member in group.members for name in member.subscribed_topic_names}
        names |= {part.topic_name for member in group.members for part in member.assignment.topic_partitions}
        names |= {part.topic_name for member in group.members for part in member.target_assignment.topic_partitions}
        if not all(self._context.allows(name, Operation.DESCRIBE, ResourceType.TOPIC) for name in names):
            group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            group.error_message = "The group has described topic(s) that the client is not authorized to describe."
            group.members = []


class _Place:
    """Who asks for one group of many."""

    def __init__(self, gathering: _Gathering, place: int, group_id: str) -> None:
        self._gathering = gathering
        self._place = place
        self._group_id = group_id

    def respond(self, response: ConsumerGroupDescribeResponse) -> None:
        """The group as its shard knows it."""
        self._gathering.take(self._place, response.groups[0])

    def fail(self, error: BaseException) -> None:
        """The group cannot be described."""
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        message = error.message if isinstance(error, KafkaError) else str(error)
        group = DescribedGroup(error_code=code, error_message=message, group_id=self._group_id)
        self._gathering.take(self._place, group)


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest) -> Message | Pending:
    """Ask for every group."""
    if not request.group_ids:
        return ConsumerGroupDescribeResponse(groups=[])
    gathering = _Gathering(context, request)
    for place, group_id in enumerate(request.group_ids):
        token = _Place(gathering, place, group_id)
        if not group_id:
            token.fail(KafkaError(ErrorCode.INVALID_GROUP_ID))
        elif not context.allows(group_id):
            token.fail(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        else:
            context.broker.groups.ask(token, context, group_id, DescribeConsumerGroup(group_id))
    return PENDING


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
