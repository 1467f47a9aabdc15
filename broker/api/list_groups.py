"""ListGroups (key 16): the groups that this broker coordinates.

Behaviour: filters by state and by type in any case; a client that may not describe the cluster sees the groups that it
may describe. COORDINATOR_LOAD_IN_PROGRESS while some groups are still being loaded.
"""

from __future__ import annotations

from typing import Any

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.gather import Gather
from stratalog.broker.requests.authorizer import CLUSTER_NAME
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.groups.group_events import ListGroups
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: Context, request: ListGroupsRequest) -> Pending:
    """Ask every shard."""
    groups = context.broker.groups
    if groups.loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    sees_all = context.allows(CLUSTER_NAME, Operation.DESCRIBE, ResourceType.CLUSTER)

    def assemble(answers: list[Any]) -> Message:
        listed = [one for answer in answers for one in answer.groups if sees_all or context.allows(one.group_id)]
        codes = [answer.error_code for answer in answers if answer.error_code]
        return ListGroupsResponse(error_code=codes[0], groups=[]) if codes else ListGroupsResponse(groups=listed)

    gather = Gather(context, assemble)
    states = frozenset(state.lower() for state in request.states_filter)
    types = frozenset(name.lower() for name in request.types_filter)
    for driver in groups.drivers():
        driver.ask(ListGroups(gather.part(_failed), states, types))
    return gather.close()


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
