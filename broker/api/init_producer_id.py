"""InitProducerId (key 22): an identity for an idempotent producer.

Behaviour: without a transactional id every call gives a new producer id with epoch 0; a producer that hands its old
one in gets a new one too, as in Kafka. With a transactional id COORDINATOR_NOT_AVAILABLE is answered: this release
has no transaction coordinator.
"""

from __future__ import annotations

from stratalog.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Pending
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


async def _allocate(context: RequestContext) -> Message:
    return InitProducerIdResponse(producer_id=await context.broker.producer_ids.next(), producer_epoch=0)


def handle(context: RequestContext, request: InitProducerIdRequest) -> Message | Pending:
    """Take the next id of the broker's block; a new block is written to the metadata log first."""
    if request.transactional_id is not None:
        return _refused(
            ErrorCode.INVALID_REQUEST if not request.transactional_id else ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
    if not context.allows(CLUSTER_NAME, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return context.run(_allocate(context))


def _refused(code: ErrorCode) -> Message:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


API = Api(
    key=22,
    versions=(0, 5),
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    handle=handle,
    operation=Operation.IDEMPOTENT_WRITE,
    resource=ResourceType.TRANSACTIONAL_ID,
)
