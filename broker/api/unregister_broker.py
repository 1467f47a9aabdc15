"""UnregisterBroker (key 64): forget a broker that is gone for good.

Behaviour: a cluster is one broker, and that one runs: its own id is refused with INVALID_REQUEST, every other with
BROKER_ID_NOT_REGISTERED, unless the metadata came from a cluster that had more of them.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import unregister_broker
from stratalog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


async def _unregister(context: Context, request: UnregisterBrokerRequest) -> Message:
    broker = context.broker
    resolver = broker.topic_rules().resolver

    def unclean_allowed(topic: str) -> bool:
        entries = resolver.resolve(broker.image.topic_configs(topic))
        return bool(entries["unclean.leader.election.enable"].value)

    await broker.control.execute(
        lambda image: unregister_broker(
            image, request.broker_id, own_id=broker.node_id, unclean_allowed=unclean_allowed
        ),
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
)
