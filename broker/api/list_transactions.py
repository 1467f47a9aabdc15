"""ListTransactions (key 66): the transactional ids that this broker coordinates (KIP-664).

Behaviour: filters by state, producer id, duration (KIP-994) and a pattern of the whole id (KIP-1152, RE2 as in Kafka);
what the caller may not describe is left out. COORDINATOR_LOAD_IN_PROGRESS while some are still being loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import re2

from stratalog.broker.context import RequestContext
from stratalog.broker.coordinators.gather import Gather
from stratalog.broker.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.transactions.events import ListIds
from stratalog.metadata.transactions.status import TransactionStatus
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from stratalog.wire.schema import Message

__all__ = ["API"]

_STATES: Final = frozenset(status.title for status in TransactionStatus)
_PATTERN_BYTES_MAX: Final = 1 << 20


def handle(context: RequestContext, request: ListTransactionsRequest) -> Pending:
    """Ask every shard."""
    transactions = context.broker.transactions
    if transactions.loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    matches = _matcher(request.transactional_id_pattern)
    asked = frozenset(request.state_filters)

    def assemble(answers: list[Any]) -> Message:
        listed = [state for answer in answers for state in answer.transaction_states]
        codes = [answer.error_code for answer in answers if answer.error_code]
        return ListTransactionsResponse(
            error_code=codes[0] if codes else 0,
            unknown_state_filters=sorted(asked - _STATES),
            transaction_states=[] if codes else [one for one in listed if context.allows(one.transactional_id)],
        )

    gather = Gather(context, assemble)
    producer_ids = frozenset(request.producer_id_filters)
    for driver in transactions.drivers():
        driver.ask(ListIds(gather.part(_failed), asked, producer_ids, request.duration_filter, matches))
    return gather.close()


def _matcher(pattern: str | None) -> Callable[[str], bool]:
    """Whether a transactional id matches. Raises INVALID_REGULAR_EXPRESSION."""
    if not pattern:
        return lambda _: True
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES_MAX
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"`{pattern}` is not a valid regular expression"
        ) from error
    return lambda transactional_id: compiled.fullmatch(transactional_id) is not None


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
