"""InitProducerId (key 22): an identity for an idempotent or transactional producer.

Behaviour: without a transactional id every call gives a new producer id with epoch 0; a producer that hands its old
one in gets a new one too, as in Kafka. With one, its coordinator gives the same producer id and the next epoch, and
ends what an older producer has left open; a producer that hands in its id and epoch goes on after an error (KIP-360).
A client that may write to any topic may have an id (KIP-679), and so may one with IDEMPOTENT_WRITE on the cluster.
"""

from __future__ import annotations

import logging

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

log = logging.getLogger(__name__)


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
    if context.broker.config.roles.has_peers:
        # A marker for a partition that another broker leads would never be written, and its readers would wait for it.
        why = (
            "Transactions over several nodes are not served in this release: use a broker that is a cluster by itself."
        )
        log.warning("%s for transactional id %r: %s", context.words, transactional_id, why)
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, why)
    ids_from = first_producer_id_of_era(context.broker.image)
    event = InitProducer(context, transactional_id, request.transaction_timeout_ms, expected, ids_from)
    return context.broker.transactions.submit(transactional_id, event)


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
