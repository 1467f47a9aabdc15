"""Heartbeat (key 12): a member of a classic group is alive; the answer tells whether the group rebalances.

Behaviour: while the group is being loaded from its log every heartbeat is fine; sessions begin when that is done.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.groups import check_member_request
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: Context, request: HeartbeatRequest) -> Pending | Message:
    """Give it to the group."""
    check_member_request(context, request.group_id)
    groups = context.broker.groups
    try:
        return groups.heartbeat(context, request)
    except KafkaError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()
        raise


API = Api(
    key=12,
    versions=(0, 4),
    request=HeartbeatRequest,
    response=HeartbeatResponse,
    handle=handle,
    operation=Operation.READ,
    resource=ResourceType.GROUP,
)
