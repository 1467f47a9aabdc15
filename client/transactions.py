"""Transactions through the client: lists, descriptions, the producers of a partition; hanging ones ended.

Every refusal is a `KafkaError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.client.client import Client
from stratalog.client.coordinators import TRANSACTION, at_coordinator, while_coordinators_move
from stratalog.client.link import check
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from stratalog.wire.messages.describe_transactions import DescribeTransactionsRequest
from stratalog.wire.messages.list_transactions import ListTransactionsRequest
from stratalog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from stratalog.wire.topic import TopicPartition

__all__ = [
    "ActiveProducer",
    "ListedTransaction",
    "TransactionDescription",
    "abort_transaction",
    "describe_producers",
    "describe_transaction",
    "list_transactions",
]


_DURATION_SINCE: Final = 1
_PATTERN_SINCE: Final = 2


class ListedTransaction(NamedTuple):
    """One line of the list of transactional ids."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionDescription(Struct, frozen=True):
    """A transactional id. ``start_ms`` is None unless a transaction has begun."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ActiveProducer(NamedTuple):
    """A producer that a partition remembers. ``start_offset`` is where its open transaction began, None without one."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int | None


def list_transactions(
    client: Client,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """The transactional ids of all brokers that pass the filters, by id.

    Raises UNSUPPORTED_VERSION for a filter that a broker does not know: it would list all.
    """
    client.refresh([])
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )

    version_min = _PATTERN_SINCE if pattern is not None else _DURATION_SINCE if duration_ms >= 0 else 0

    def of_broker(node_id: int) -> list[ListedTransaction]:
        client.check_version(ListTransactionsRequest, version_min, node_id)
        answer = client.call(request, node_id)
        check(answer.error_code)
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"no transaction is ever {unknown}")
        return [
            ListedTransaction(one.transactional_id, node_id, one.producer_id, one.transaction_state)
            for one in answer.transaction_states
        ]

    found: list[ListedTransaction] = []
    for node_id in sorted(client.brokers):
        found += while_coordinators_move(client, partial(of_broker, node_id))
    return sorted(found)


def describe_transaction(client: Client, transactional_id: str) -> TransactionDescription:
    """A transactional id. Raises TRANSACTIONAL_ID_NOT_FOUND."""

    def describe(node_id: int) -> TransactionDescription:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (found,) = client.call(request, node_id).transaction_states
        check(found.error_code, f"transactional id {transactional_id}")
        return TransactionDescription(
            transactional_id=transactional_id,
            coordinator=node_id,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            state=found.transaction_state,
            timeout_ms=found.transaction_timeout_ms,
            start_ms=found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
            partitions=tuple(
                TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions
            ),
        )

    return at_coordinator(client, transactional_id, describe, TRANSACTION)


def describe_producers(client: Client, partition: TopicPartition) -> list[ActiveProducer]:
    """The producers that the leader of a partition remembers, by producer id."""

    def describe() -> list[ActiveProducer]:
        topic = TopicRequest(name=partition.topic, partition_indexes=[partition.partition])
        answer = client.call(DescribeProducersRequest(topics=[topic]), client.leader(partition))
        found = answer.topics[0].partitions[0]
        check(found.error_code, found.error_message or str(partition))
        return sorted(
            ActiveProducer(
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.last_timestamp,
                one.coordinator_epoch,
                one.current_txn_start_offset if one.current_txn_start_offset >= 0 else None,
            )
            for one in found.active_producers
        )

    return client.while_leaders_move([partition.topic], describe)


def abort_transaction(client: Client, partition: TopicPartition, start_offset: int) -> ActiveProducer:
    """Abort, in this partition alone, the open transaction that began at ``start_offset``; whose it was.

    For transactions that no coordinator will ever end. Raises RESOURCE_NOT_FOUND if none began there.
    """
    open_there = [one for one in describe_producers(client, partition) if one.start_offset == start_offset]
    if not open_there:
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND, f"no open transaction of {partition} began at offset {start_offset}"
        )
    producer = open_there[0]
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )

    def write() -> None:
        answer = client.call(WriteTxnMarkersRequest(markers=[marker]), client.leader(partition))
        check(answer.markers[0].topics[0].partitions[0].error_code, str(partition))

    client.while_leaders_move([partition.topic], write)
    return producer
