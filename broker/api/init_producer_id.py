"""InitProducerId (key 22): an identity for an idempotent or transactional producer.

Behaviour: without a transactional id every call gives a new producer id with epoch 0; a producer that hands its old
one in gets a new one too, as in Kafka. With one, its coordinator gives the same producer id and the next epoch, and
ends what an older producer has left open; a producer that hands in its id and epoch goes on after an error (KIP-360).
A client that may write to any topic may have an id (KIP-679), and so may one with IDEMPOTENT_WRITE on the cluster.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.authorizer import CLUSTER_NAME, Operation, ResourceType
from stratalog.broker.requests.dispatch import Api, Pending
from stratalog.metadata.controller.brokers import first_producer_id_of_era
from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.errors import for_version
from stratalog.metadata.transactions.events import InitProducer
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


async def _allocate(context: Context) -> Message:
    return InitProducerIdResponse(producer_id=await context.broker.producer_ids.next(), producer_epoch=0)


def handle(context: Context, request: InitProducerIdRequest) -> Message | Pending:
    """Ask the coordinator, or take the next id of the broker's block; a new block goes to the metadata log first."""
    transactional_id = request.transactional_id
    expected = _expected(request)
    if transactional_id is None:
        if not context.allows(
            CLUSTER_NAME, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER
        ) and not context.allows_some(Operation.WRITE, ResourceType.TOPIC):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return context.run(_allocate(context))
    if not context.allows(transactional_id, Operation.WRITE):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    event = InitProducer(context, transactional_id, request.transaction_timeout_ms, expected, _ids_from(context))
    return context.broker.transactions.submit(transactional_id, event)


def _ids_from(context: Context) -> int:
    """The first producer id that a transactional id need not give up.

    In a cluster of several nodes ids come in the order of their blocks, which say nothing of an era.
    """
    broker = context.broker
    return broker.producer_ids.floor if broker.config.roles.has_peers else first_producer_id_of_era(broker.image)


def _expected(request: InitProducerIdRequest) -> Producer | None:
    """The producer's former identity, if it names one. Raises INVALID_REQUEST for half of it."""
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"producer id {request.producer_id} and epoch {request.producer_epoch} belong together",
        )
    return None if request.producer_id < 0 else Producer(request.producer_id, request.producer_epoch)


def _failure(_request: InitProducerIdRequest, version: int, error: KafkaError) -> Message:
    return InitProducerIdResponse(error_code=for_version(error, 22, version), producer_epoch=-1)


API = Api(
    key=22,
    versions=(0, 5),
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    handle=handle,
    operation=Operation.IDEMPOTENT_WRITE,
    resource=ResourceType.TRANSACTIONAL_ID,
    failure=_failure,
)
