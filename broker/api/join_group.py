"""JoinGroup (key 11): enter a classic group, or enter its next generation.

Behaviour: the answer leaves when the generation begins, which is when all members have joined or the time for it is up.
The reason that a member gives is logged (KIP-800).
"""

from __future__ import annotations

import logging

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.groups import check_member_request
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from stratalog.wire.schema import Message

__all__ = ["API"]

log = logging.getLogger(__name__)


def handle(context: Context, request: JoinGroupRequest) -> Pending:
    """Give it to the group."""
    check_member_request(context, request.group_id)
    if request.reason:
        who = request.member_id or request.group_instance_id or context.client_id
        log.info("group %r: %r joins: %.300r", request.group_id, who, request.reason)
    groups = context.broker.groups
    return groups.submit(context, request.group_id, request)


def _failure(request: JoinGroupRequest, _version: int, error: KafkaError) -> Message:
    return JoinGroupResponse(error_code=error.code, member_id=request.member_id)


API = Api(
    key=11,
    versions=(0, 9),
    request=JoinGroupRequest,
    response=JoinGroupResponse,
    handle=handle,
    operation=Operation.READ,
    resource=ResourceType.GROUP,
    failure=_failure,
)
