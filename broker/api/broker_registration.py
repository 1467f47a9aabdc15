"""BrokerRegistration (key 62): a broker process asks the active controller to be one of the cluster (KIP-631).

Behaviour: a broker begins fenced, under an epoch that is the offset of its registration. The same incarnation may register
again and keeps its epoch. Another one that comes while the session of the first runs is DUPLICATE_BROKER_REGISTRATION.
Requests below version 2 name no directories: INVALID_REGISTRATION from level 17 of ``metadata.version`` on.
"""

from __future__ import annotations

from stratalog.broker.api.controller_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import BrokerRegistration
from stratalog.metadata.image.brokers_image import ListenerAddress, SupportedLevels
from stratalog.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


async def _register(context: Context, request: BrokerRegistrationRequest) -> Message:
    asked = BrokerRegistration(
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=request.incarnation_id,
        listeners={at.name: ListenerAddress(at.host, at.port, at.security_protocol) for at in request.listeners},
        features={
            each.name: SupportedLevels(each.min_supported_version, each.max_supported_version)
            for each in request.features
        },
        rack=request.rack,
        directories=tuple(request.log_dirs),
        previous_broker_epoch=request.previous_broker_epoch,
        is_migrating=request.is_migrating_zk_broker,
    )
    epoch = await context.broker.sessions.register(asked, source=context.connection)
    return BrokerRegistrationResponse(broker_epoch=epoch)


def handle(context: Context, request: BrokerRegistrationRequest) -> Pending:
    """Runs as a task: waits for the metadata log."""
    return context.run(_register(context, request))


API = Api(
    key=62,
    versions=(0, 4),
    request=BrokerRegistrationRequest,
    response=BrokerRegistrationResponse,
    handle=handle,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
)
