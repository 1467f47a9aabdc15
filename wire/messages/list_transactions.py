"""ListTransactions (key 66): the transactional ids of a coordinator (KIP-664).

- 0: filters by state and producer id. 1: by duration (KIP-994). 2: by a pattern of transactional ids (KIP-1152).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, Struct, field

__all__ = ["ListTransactionsRequest", "ListTransactionsResponse", "TransactionState"]


class ListTransactionsRequest(Message, api_key=66, versions=(0, 2), flexible=0):
    """The filters of the list: everything is listed that passes all of them.
    Empty lists, a negative duration and no pattern pass all.
    """

    state_filters: list[str]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = field(-1, since=1)
    transactional_id_pattern: str | None = field(None, since=2)


class TransactionState(Struct):
    """One transactional id."""

    transactional_id: str
    producer_id: Int64
    transaction_state: str


class ListTransactionsResponse(Message, api_key=66, versions=(0, 2), flexible=0):
    """The transactions that passed; states that were asked for and do not exist."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    unknown_state_filters: list[str] = field()
    transaction_states: list[TransactionState] = field()
