"""ListGroups (key 16): the groups that this broker coordinates.

Behaviour: filters by state and by type in any case; a client that may not describe the cluster sees the groups that it
may describe. COORDINATOR_LOAD_IN_PROGRESS while some groups are still being loaded.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.authorizer import CLUSTER_NAME
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Awaited, Steps
from stratalog.metadata.groups.group_events import ListGroups
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: Context, request: ListGroupsRequest) -> Pending:
    """Ask every shard."""
    if context.broker.groups.loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: ListGroupsRequest) -> Steps[Message]:
    """One shard after the other: together they may hold a hundred thousand groups. Those of one are found in one step.

    Shards come and go meanwhile: one that went to another broker is listed there, one that is led anew is asked as it
    is then, and while one is loaded the client asks again.
    """
    sees_all = context.allows(CLUSTER_NAME, Operation.DESCRIBE, ResourceType.CLUSTER)
    states = frozenset(state.lower() for state in request.states_filter)
    types = frozenset(name.lower() for name in request.types_filter)
    rows = context.rows("groups")
    groups = context.broker.groups
    for known in list(groups.drivers()):
        if groups.loading:
            return _failed(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        driver = next((one for one in groups.drivers() if one.partition_number == known.partition_number), None)
        if driver is None:
            continue
        awaited = Awaited(_failed)
        driver.ask(ListGroups(awaited, states, types))
        yield awaited
        found: ListGroupsResponse = awaited.answer
        if found.error_code:
            return ListGroupsResponse(error_code=found.error_code, groups=[])
        for group in found.groups:
            if sees_all or context.allows(group.group_id):
                yield from rows.add(group)
            else:
                yield None
        yield None
    return ListGroupsResponse(groups=rows.close())


def _failed(error: KafkaError) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=error.code, groups=[])


API = Api(
    key=16,
    versions=(0, 5),
    request=ListGroupsRequest,
    response=ListGroupsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.GROUP,
)
