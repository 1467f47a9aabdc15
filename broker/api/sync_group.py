"""SyncGroup (key 14): the leader hands in the assignments of a generation, every member fetches its own.

Behaviour: no member is answered before the assignments of all are committed to ``__consumer_offsets``.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.groups import check_member_request
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["API"]


def handle(context: Context, request: SyncGroupRequest) -> Pending:
    """Give it to the group."""
    check_member_request(context, request.group_id)
    groups = context.broker.groups
    return groups.submit(context, request.group_id, request)


API = Api(
    key=14,
    versions=(0, 5),
    request=SyncGroupRequest,
    response=SyncGroupResponse,
    handle=handle,
    operation=Operation.READ,
    resource=ResourceType.GROUP,
)
