"""DescribeTransactions (key 65): what coordinators know of transactional ids (KIP-664).

Behaviour: each id for itself, with its own error; topics that the caller may not describe are left out.
"""

from __future__ import annotations

from functools import partial

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Awaited, Steps
from stratalog.metadata.transactions.events import Describe
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: Context, request: DescribeTransactionsRequest) -> Pending:
    """Ask the shard of each."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: DescribeTransactionsRequest) -> Steps[Message]:
    states = context.rows("transaction_states")
    for transactional_id in dict.fromkeys(request.transactional_ids):
        awaited = Awaited(partial(_failed, transactional_id))
        if context.allows(transactional_id):
            context.broker.transactions.ask(transactional_id, Describe(awaited, transactional_id))
        else:
            awaited.fail(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        yield awaited
        for state in awaited.answer.transaction_states:
            state.topics = [
                one for one in state.topics if context.allows(one.topic, Operation.DESCRIBE, ResourceType.TOPIC)
            ]
            yield from states.add(state)
    return DescribeTransactionsResponse(transaction_states=states.close())


def _failed(transactional_id: str, error: KafkaError) -> DescribeTransactionsResponse:
    state = TransactionState(transactional_id=transactional_id, error_code=error.code)
    return DescribeTransactionsResponse(transaction_states=[state])


def _failure(request: DescribeTransactionsRequest, _version: int, error: KafkaError) -> Message:
    states = [TransactionState(transactional_id=name, error_code=error.code) for name in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


API = Api(
    key=65,
    versions=(0, 0),
    request=DescribeTransactionsRequest,
    response=DescribeTransactionsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.TRANSACTIONAL_ID,
    failure=_failure,
)
