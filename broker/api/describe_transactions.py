"""DescribeTransactions (key 65): what coordinators know of transactional ids (KIP-664).

Behaviour: each id for itself, with its own error; topics that the caller may not describe are left out.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from stratalog.broker.context import RequestContext
from stratalog.broker.coordinators.gather import Gather
from stratalog.broker.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.transactions.events import Describe
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: RequestContext, request: DescribeTransactionsRequest) -> Pending:
    """Ask the shard of each."""

    def assemble(answers: list[Any]) -> Message:
        states = [state for answer in answers for state in answer.transaction_states]
        for state in states:
            state.topics = [
                one for one in state.topics if context.allows(one.topic, Operation.DESCRIBE, ResourceType.TOPIC)
            ]
        return DescribeTransactionsResponse(transaction_states=states)

    gather = Gather(context, assemble)
    for transactional_id in dict.fromkeys(request.transactional_ids):
        if context.allows(transactional_id):
            part = gather.part(partial(_failed, transactional_id))
            context.broker.transactions.ask(transactional_id, Describe(part, transactional_id))
        else:
            denied = KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            gather.answered(_failed(transactional_id, denied))
    return gather.close()


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
