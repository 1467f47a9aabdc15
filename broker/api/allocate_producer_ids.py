"""AllocateProducerIds (key 67): a broker asks the active controller for a block of producer ids (KIP-730).

Behaviour: a thousand ids, which are never given out again: the answer leaves when the log says so. Another broker epoch
than the registered one is STALE_BROKER_EPOCH.
"""

from __future__ import annotations

from stratalog.broker.api.controller_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import allocate_producer_ids
from stratalog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


async def _allocate(context: Context, request: AllocateProducerIdsRequest) -> Message:
    block = await context.broker.control.execute(
        lambda image: allocate_producer_ids(image, request.broker_id, request.broker_epoch),
        source=context.connection,
    )
    return AllocateProducerIdsResponse(producer_id_start=block.first_id, producer_id_len=block.id_count)


def handle(context: Context, request: AllocateProducerIdsRequest) -> Pending:
    """Runs as a task: waits for the metadata log."""
    return context.run(_allocate(context, request))


API = Api(
    key=67,
    versions=(0, 0),
    request=AllocateProducerIdsRequest,
    response=AllocateProducerIdsResponse,
    handle=handle,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
)
