"""LeaveGroup (key 13): members leave a classic group at once, instead of by their session time-out.

Behaviour: an administrator may name static members by their instance id alone. When the last member leaves, the answer
waits until that is committed. The reason that is given is logged (KIP-800).
"""

from __future__ import annotations

import logging
from typing import Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.groups import check_member_request
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

__all__ = ["API"]

log = logging.getLogger(__name__)

_REASONS_MAX: Final = 10
"""For one request: it may name thousands of members, also some that the group does not have."""


def handle(context: Context, request: LeaveGroupRequest) -> Pending:
    """Give it to the group."""
    check_member_request(context, request.group_id)
    reasons = [one for one in request.members if one.reason]
    for one in reasons[:_REASONS_MAX]:
        log.info("group %r: %r leaves: %.300r", request.group_id, one.member_id or one.group_instance_id, one.reason)
    if len(reasons) > _REASONS_MAX:
        log.info("group %r: %d more leave with a reason", request.group_id, len(reasons) - _REASONS_MAX)
    groups = context.broker.groups
    return groups.submit(context, request.group_id, request)


API = Api(
    key=13,
    versions=(0, 5),
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
    handle=handle,
    operation=Operation.READ,
    resource=ResourceType.GROUP,
)
