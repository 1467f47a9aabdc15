"""UnregisterBroker (key 64): forget a broker that is gone for good.

Behaviour: one that runs may be named, too, as in Kafka: it registers again. Only a broker that is a cluster by itself does
not, and refuses its own id with INVALID_REQUEST. A stranger is BROKER_ID_NOT_REGISTERED.
"""

from __future__ import annotations

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import unregistering_broker
from stratalog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


async def _unregister(context: Context, request: UnregisterBrokerRequest) -> Message:
    broker = context.broker
    only_broker = None if broker.config.roles.has_peers else broker.node_id
    await broker.control.execute(
        lambda image: unregistering_broker(broker.cluster_view(image), request.broker_id, only_broker=only_broker),
        source=context.connection,
    )
    return UnregisterBrokerResponse()


def handle(context: Context, request: UnregisterBrokerRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
    return context.run(_unregister(context, request))


API = Api(
    key=64,
    versions=(0, 0),
    request=UnregisterBrokerRequest,
    response=UnregisterBrokerResponse,
    handle=handle,
    operation=Operation.ALTER,
    resource=ResourceType.CLUSTER,
    forwarded=True,
)
