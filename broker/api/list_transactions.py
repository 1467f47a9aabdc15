"""ListTransactions (key 66): the transactional ids that this broker coordinates (KIP-664).

Behaviour: filters by state, producer id, duration (KIP-994) and a pattern of the whole id (KIP-1152, RE2 as in Kafka);
what the caller may not describe is left out. COORDINATOR_LOAD_IN_PROGRESS while some are still being loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Awaited, Steps
from stratalog.metadata.groups.topic_patterns import compile_pattern
from stratalog.metadata.transactions.events import ListIds
from stratalog.metadata.transactions.status import TransactionStatus
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

_STATES: Final = frozenset(status.title for status in TransactionStatus)


def handle(context: Context, request: ListTransactionsRequest) -> Pending:
    """Ask every shard; what matches the pattern is found out beside the connection."""
    transactions = context.broker.transactions
    if transactions.loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    if request.transactional_id_pattern:
        compile_pattern(request.transactional_id_pattern)
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: ListTransactionsRequest) -> Steps[Message | Pending]:
    """One shard after the other: together they may hold a hundred thousand ids. Those of one are found in one step.

    Shards come and go meanwhile: one that went to another broker is listed there, and one that is led anew is asked as it is then.
    """
    asked, producer_ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
    transactions, pattern = context.broker.transactions, request.transactional_id_pattern
    listed: list[TransactionState] = []
    for known in list(transactions.drivers()):
        if transactions.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        driver = next((one for one in transactions.drivers() if one.partition_number == known.partition_number), None)
        if driver is None:
            continue
        awaited = Awaited(_failed)
        driver.ask(ListIds(awaited, asked, producer_ids, request.duration_filter))
        yield awaited
        if awaited.answer.error_code:
            raise KafkaError(ErrorCode(awaited.answer.error_code))
        for state in awaited.answer.transaction_states:
            if context.allows(state.transactional_id):
                listed.append(state)
            yield None
    if pattern:
        return context.run(_select(context, request, listed, pattern))
    return (yield from _listed(context, request, listed))


async def _select(
    context: Context, request: ListTransactionsRequest, states: list[TransactionState], pattern: str
) -> Steps[Message]:
    """Leave out what does not match. Raises INVALID_REGULAR_EXPRESSION."""
    matching = await context.broker.groups.patterns.select(pattern, [one.transactional_id for one in states])
    return _listed(context, request, (one for one in states if one.transactional_id in matching))


def _listed(context: Context, request: ListTransactionsRequest, states: Iterable[TransactionState]) -> Steps[Message]:
    rows = context.rows("transaction_states")
    for state in states:
        yield from rows.add(state)
    unknown = sorted(frozenset(request.state_filters) - _STATES)
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=rows.close())


def _failed(error: KafkaError) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code)


API = Api(
    key=66,
    versions=(0, 2),
    request=ListTransactionsRequest,
    response=ListTransactionsResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.TRANSACTIONAL_ID,
)
