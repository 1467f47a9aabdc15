"""The questions about transactions: answers made from the state as it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from stratalog.metadata.transactions.events import ListIds
from stratalog.metadata.transactions.transaction import Transaction
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages import describe_transactions, list_transactions
from stratalog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from stratalog.wire.messages.describe_transactions import DescribeTransactionsResponse, TopicData
from stratalog.wire.messages.list_transactions import ListTransactionsResponse
from stratalog.wire.topic import TopicPartition

__all__ = ["described", "listed", "outcomes", "verified"]


def verified(transaction: Transaction, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnResponse:
    """Which of the partitions are in the transaction; TRANSACTION_ABORTABLE for those that are not."""
    codes = {
        partition: 0 if partition in transaction.partitions else int(ErrorCode.TRANSACTION_ABORTABLE)
        for partition in partitions
    }
    result = AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=outcomes(codes))
    return AddPartitionsToTxnResponse(results_by_transaction=[result])


def outcomes(codes: dict[TopicPartition, int]) -> list[AddPartitionsToTxnTopicResult]:
    """Outcomes of partitions, by topic."""
    by_topic: defaultdict[str, list[AddPartitionsToTxnPartitionResult]] = defaultdict(list)
    for (topic, number), code in sorted(codes.items()):
        by_topic[topic].append(AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code))
    return [
        AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results) for topic, results in by_topic.items()
    ]


def described(transactional_id: str, transaction: Transaction | None) -> DescribeTransactionsResponse:
    """One transactional id; TRANSACTIONAL_ID_NOT_FOUND if there is no such."""
    state = describe_transactions.TransactionState(transactional_id=transactional_id)
    if transaction is None:
        state.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return DescribeTransactionsResponse(transaction_states=[state])
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(transaction.partitions):
        by_topic[topic].append(number)
    state.transaction_state = transaction.status.title
    state.transaction_timeout_ms = transaction.timeout_ms
    state.transaction_start_time_ms = transaction.start_ms
    state.producer_id, state.producer_epoch = transaction.producer
    state.topics = [TopicData(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    return DescribeTransactionsResponse(transaction_states=[state])


def listed(transactions: Iterable[Transaction], event: ListIds, now_ms: int) -> ListTransactionsResponse:
    """The transactions that pass the filters."""
    return ListTransactionsResponse(
        transaction_states=[
            list_transactions.TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.status.title,
            )
            for transaction in transactions
            if _passes(transaction, event, now_ms)
        ]
    )


def _passes(transaction: Transaction, event: ListIds, now_ms: int) -> bool:
    return (
        (not event.producer_ids or transaction.producer_id in event.producer_ids)
        and (not event.states or transaction.status.title in event.states)
        and (event.duration_ms < 0 or now_ms - transaction.start_ms > event.duration_ms)
    )
