"""DescribeCluster (key 60): the brokers of the cluster and its controller, or its controllers.

Behaviour: addresses are those of the listener that was asked. A broker names as controller one of the brokers that are not
fenced, by chance, as in Metadata; a controller names the leader of the metadata quorum. A broker answers for brokers, a controller for the
registered controllers (KIP-919), and each refuses the other with MISMATCHED_ENDPOINT_TYPE; version 1 says which of them is
asked for. Version 2 can include fenced brokers. Every caller is answered; the operations on the cluster are shown to those
who may describe it, and 0 to others.

Kafka's admin client asks once more only if it is refused or if the controller that it knows cannot be reached: an
answer without a controller stops it for ``metadata.max.age.ms``, five minutes. So a controller names the last leader while
another one is elected. Before the first it answers LEADER_NOT_AVAILABLE, where Kafka says that the controller is -1.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stratalog.broker.api import broker_view, controller_view, metadata_view
from stratalog.broker.api.metadata import some_node
from stratalog.broker.requests.authorizer import CLUSTER_NAME
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API", "CONTROLLER_API"]

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_ENDPOINTS: Final = {_BROKERS: "BROKER", _CONTROLLERS: "CONTROLLER"}


def handle(context: broker_view.Context, request: DescribeClusterRequest) -> Message:
    """Answer from the image of a broker."""
    if request.endpoint_type != _BROKERS:
        return _refusal(request.endpoint_type, here=_BROKERS)
    listener = context.connection.listener.name
    brokers = [
        DescribeClusterBroker(
            broker_id=each.broker_id, host=at.host, port=at.port, rack=each.rack, is_fenced=each.is_fenced
        )
        for each in context.broker.image.brokers.brokers.values()
        if (at := each.listeners.get(listener)) is not None and (request.include_fenced_brokers or not each.is_fenced)
    ]
    alive = [each.broker_id for each in brokers if not each.is_fenced]
    answer = DescribeClusterResponse(
        cluster_id=context.broker.cluster_id,
        controller_id=some_node(alive, context.broker.random_int),
        brokers=brokers,
    )
    return _with_operations(context, request, answer)


def describe_controllers(context: controller_view.Context, request: DescribeClusterRequest) -> Message:
    """Answer from the image of a controller."""
    if request.endpoint_type != _CONTROLLERS:
        return _refusal(request.endpoint_type, here=_CONTROLLERS)
    listener = context.connection.listener.name
    controllers = [
        DescribeClusterBroker(broker_id=each.controller_id, host=at.host, port=at.port)
        for each in context.broker.image.brokers.controllers.values()
        if (at := each.listeners.get(listener)) is not None
    ]
    leader_id = context.broker.last_leader_id
    answer = DescribeClusterResponse(
        endpoint_type=_CONTROLLERS,
        cluster_id=context.broker.cluster_id,
        controller_id=leader_id,
        brokers=controllers,
    )
    if all(each.broker_id != leader_id for each in controllers):
        answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        answer.error_message = (
            f"No active controller is known to node {context.broker.node_id} on the listener {listener}; ask again, or see "
            "its log if this lasts: most voters must be up and reach each other"
        )
    return _with_operations(context, request, answer)


def _refusal(endpoint_type: int, *, here: int) -> Message:
    wanted = _ENDPOINTS.get(endpoint_type)
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE if wanted is None else ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        error_message=(
            f"Unsupported endpoint type {endpoint_type}"
            if wanted is None
            else f"The request was sent to an endpoint of type {_ENDPOINTS[here]}, but we wanted an endpoint of type {wanted}"
        ),
        cluster_id="",
        brokers=[],
    )


def _with_operations(
    context: metadata_view.Context, request: DescribeClusterRequest, answer: DescribeClusterResponse
) -> Message:
    if request.include_cluster_authorized_operations:
        sees = context.allows(CLUSTER_NAME, Operation.DESCRIBE)
        operations = context.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME) if sees else 0
        answer.cluster_authorized_operations = operations
    return answer


API = Api(
    key=60,
    versions=(0, 2),
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
    handle=handle,
    operation=Operation.ANY,
    resource=ResourceType.CLUSTER,
)

CONTROLLER_API = replace(API, handle=describe_controllers)
