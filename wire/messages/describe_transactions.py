"""DescribeTransactions (key 65): what a coordinator knows of some transactional ids (KIP-664)."""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, Struct, field

__all__ = ["DescribeTransactionsRequest", "DescribeTransactionsResponse", "TopicData", "TransactionState"]


class DescribeTransactionsRequest(Message, api_key=65, versions=(0, 0), flexible=0):
    """Which transactional ids."""

    transactional_ids: list[str]


class TopicData(Struct):
    """Partitions of one topic."""

    topic: str
    partitions: list[Int32]


class TransactionState(Struct):
    """One transactional id. While a transaction is being ended, ``topics`` are those that still lack a marker."""

    error_code: Int16 = field()
    transactional_id: str
    transaction_state: str = field()
    transaction_timeout_ms: Int32 = field()
    transaction_start_time_ms: Int64 = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    topics: list[TopicData] = field()


class DescribeTransactionsResponse(Message, api_key=65, versions=(0, 0), flexible=0):
    """One entry for each transactional id that was asked for."""

    throttle_time_ms: Int32 = field()
    transaction_states: list[TransactionState]
