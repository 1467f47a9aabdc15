"""DescribeCluster (key 60): the brokers of the cluster and its controller.

Behaviour: addresses are those of the listener that was asked. Version 1 can ask for controllers, which this broker
does not answer for (UNSUPPORTED_ENDPOINT_TYPE); version 2 can include fenced brokers. Every caller is answered; the
operations on the cluster are shown to those who may describe it, and 0 to others.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.authorizer import CLUSTER_NAME
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(context: Context, request: DescribeClusterRequest) -> Message:
    """Answer from the image."""
    broker = context.broker
    if request.endpoint_type != _BROKERS:
        mismatched = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if mismatched else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=(
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
                if mismatched
                else f"Unsupported endpoint type {request.endpoint_type}"
            ),
            cluster_id="",
            brokers=[],
        )
    listener = context.connection.listener.name
    brokers = [
        DescribeClusterBroker(
            broker_id=each.broker_id, host=at.host, port=at.port, rack=each.rack, is_fenced=each.is_fenced
        )
        for each in broker.image.brokers.brokers.values()
        if (at := each.listeners.get(listener)) is not None and (request.include_fenced_brokers or not each.is_fenced)
    ]
    answer = DescribeClusterResponse(cluster_id=broker.cluster_id, controller_id=broker.node_id, brokers=brokers)
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
