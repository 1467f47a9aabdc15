"""EndTxn (key 26): commit or abort a transaction.

Behaviour: answered when the decision is in the coordinator's log; the markers follow. From version 5 on (transactions
v2, KIP-890) every end raises the epoch, and the answer tells with which id and epoch to go on.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.errors import for_version
from stratalog.metadata.transactions.events import EndTransaction
from stratalog.metadata.transactions.transaction import EPOCH_BUMP_SINCE
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from stratalog.wire.schema import Message

__all__ = ["API"]

_KEY: Final = 26
_RAISES_EPOCH_SINCE: Final = 5


def handle(context: Context, request: EndTxnRequest) -> Pending:
    """The coordinator answers."""
    transactional_id = request.transactional_id
    if not context.allows(transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    event = EndTransaction(
        context,
        transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        EPOCH_BUMP_SINCE if context.api_version >= _RAISES_EPOCH_SINCE else 0,
    )
    return context.broker.transactions.submit(transactional_id, event)


def _failure(_request: EndTxnRequest, version: int, error: KafkaError) -> Message:
    return EndTxnResponse(error_code=for_version(error, _KEY, version))


API = Api(
    key=_KEY,
    versions=(0, 5),
    request=EndTxnRequest,
    response=EndTxnResponse,
    handle=handle,
    operation=Operation.WRITE,
    resource=ResourceType.TRANSACTIONAL_ID,
    failure=_failure,
)
