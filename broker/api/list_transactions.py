"""ListTransactions (key 66): the transactional ids that this broker coordinates (KIP-664).

Behaviour: filters by state, producer id, duration (KIP-994) and a pattern of the whole id (KIP-1152, RE2 as in Kafka);
what the caller may not describe is left out. COORDINATOR_LOAD_IN_PROGRESS while some are still being loaded.
"""

from __future__ import annotations

from typing import Any, Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.gather import Gather
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.groups.topic_patterns import compile_pattern
from stratalog.metadata.transactions.events import ListIds
from stratalog.metadata.transactions.status import TransactionStatus
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from stratalog.wire.schema import Message

__all__ = ["API"]

_STATES: Final = frozenset(status.title for status in TransactionStatus)


def handle(context: Context, request: ListTransactionsRequest) -> Pending:
    """Ask every shard; what matches the pattern is found out beside the connection."""
    transactions = context.broker.transactions
    if transactions.loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    pattern = request.transactional_id_pattern
    if pattern:
        compile_pattern(pattern)
    asked = frozenset(request.state_filters)

    def assemble(answers: list[Any]) -> Message | Pending:
        listed = [state for answer in answers for state in answer.transaction_states]
        codes = [answer.error_code for answer in answers if answer.error_code]
        response = ListTransactionsResponse(
            error_code=codes[0] if codes else 0,
            unknown_state_filters=sorted(asked - _STATES),
            transaction_states=[] if codes else [one for one in listed if context.allows(one.transactional_id)],
        )
        return context.run(_select(context, response, pattern)) if pattern else response

    gather = Gather(context, assemble)
    producer_ids = frozenset(request.producer_id_filters)
    for driver in transactions.drivers():
        driver.ask(ListIds(gather.part(_failed), asked, producer_ids, request.duration_filter))
    return gather.close()


async def _select(context: Context, response: ListTransactionsResponse, pattern: str) -> Message:
    """Leave out what does not match. Raises INVALID_REGULAR_EXPRESSION."""
    states = response.transaction_states
    matching = await context.broker.groups.patterns.select(pattern, [one.transactional_id for one in states])
    response.transaction_states = [one for one in states if one.transactional_id in matching]
    return response


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
