"""AddPartitionsToTxn (key 24): a producer tells its coordinator which partitions its transaction will write to.

- 0: the whole of it. 1: throttling comes after the answer (KIP-219). 2: PRODUCER_FENCED may be answered (KIP-588).
- 3: flexible; the last version of clients.
- 4: the form of brokers: many transactions at once, and ``verify_only`` asks instead of adding (KIP-890).
- 5: TRANSACTION_ABORTABLE may be answered (KIP-890).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, field

__all__ = [
    "AddPartitionsToTxnPartitionResult",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddPartitionsToTxnResult",
    "AddPartitionsToTxnTopic",
    "AddPartitionsToTxnTopicResult",
    "AddPartitionsToTxnTransaction",
]


class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: str
    partitions: list[Int32]


class AddPartitionsToTxnTransaction(Struct):
    """One transaction, and the partitions to add to it or to look for in it."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = field()
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(Message, api_key=24, versions=(0, 5), flexible=3):
    """Up to version 3 the one transaction of a client, from version 4 on many."""

    transactions: list[AddPartitionsToTxnTransaction] = field(since=4)
    v3_and_below_transactional_id: str = field(until=3)
    v3_and_below_producer_id: Int64 = field(until=3)
    v3_and_below_producer_epoch: Int16 = field(until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(until=3)


class AddPartitionsToTxnPartitionResult(Struct):
    """Whether one partition is in the transaction now."""

    partition_index: Int32
    partition_error_code: Int16


class AddPartitionsToTxnTopicResult(Struct):
    """The partitions of one topic."""

    name: str
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    """The partitions of one transaction."""

    transactional_id: str
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Message, api_key=24, versions=(0, 5), flexible=3):
    """One outcome for each partition of the request."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field(since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(until=3)
