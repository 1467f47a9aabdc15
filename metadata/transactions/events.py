"""The events of a transaction shard, and its requests to its driver beyond answers and records.

An event with a ``token`` is answered exactly once. Errors are answered in the newest version's words; who answers a
client of an older version translates (`stratalog.metadata.transactions.errors`).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stratalog.metadata.coordination import Producer
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition

__all__ = [
    "AddPartitions",
    "AllocateProducerId",
    "Describe",
    "EndTransaction",
    "InitProducer",
    "ListIds",
    "MarkersWritten",
    "ProducerIdAllocated",
    "Retire",
    "SendMarkers",
    "TransactionSettings",
    "VerifyPartitions",
]


class TransactionSettings(Struct, frozen=True, kw_only=True):
    """The broker settings that transactions obey. Times in milliseconds; names and defaults are Kafka's."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_timed_out_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 3_600_000
    patience_ms: int = 100
    """How long a request waits for the end of the transaction before it, instead of being sent away to ask again."""
    version: int = 2
    """The cluster's transaction version, for what the coordinator ends by itself."""


class InitProducer(Struct):
    """InitProducerId with a transactional id. Answered with `InitProducerIdResponse`.

    ``expected``: who the producer was, if it goes on after an error (KIP-360). ``ids_from``: a producer id below it is
    replaced, for archives may know epochs of it that the coordinator does not.
    """

    token: Any
    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None
    ids_from: int = 0


class AddPartitions(Struct):
    """The transaction will write to these partitions. Answered with ``done``."""

    token: Any
    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    client_version: int
    done: Message
    waits: bool = True
    """Whether it may wait for the end of the transaction before. A broker that asks for others asks again itself."""


class VerifyPartitions(Struct):
    """Are these partitions in the transaction? Answered with an `AddPartitionsToTxnResponse` of one transaction."""

    token: Any
    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]


class EndTransaction(Struct):
    """Commit or abort, from the producer. Answered with `EndTxnResponse` when that is decided for good."""

    token: Any
    transactional_id: str
    producer: Producer
    commit: bool
    client_version: int


class MarkersWritten(Struct):
    """These partitions have their marker of the end that `SendMarkers` asked for, or are gone."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]


class ProducerIdAllocated(Struct):
    """The answer to `AllocateProducerId`: an unused id."""

    request: AllocateProducerId
    producer_id: int


class Retire(Struct):
    """The data directory went back in time: no producer of any transactional id goes on, open transactions are aborted.

    Answered with ``done`` when all of that is durable.
    """

    token: Any
    done: Message


class Describe(Struct):
    """Answered with a `DescribeTransactionsResponse` of one transaction."""

    token: Any
    transactional_id: str


class ListIds(Struct):
    """Answered with a `ListTransactionsResponse` of what passes all filters.

    ``states`` by name, empty for all; ``duration_ms`` below zero for all.
    """

    token: Any
    states: frozenset[str]
    producer_ids: frozenset[int]
    duration_ms: int


class SendMarkers(Struct):
    """Action: write the end of a transaction to these partitions, until it stands there.

    The driver reports with `MarkersWritten`, in as many parts as it likes. Asked again after a reload, so the same
    marker may be written twice.
    """

    transactional_id: str
    producer: Producer
    commit: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


class AllocateProducerId(Struct):
    """Action: get a producer id and say so with `ProducerIdAllocated`, or fail ``event``'s token.

    ``event`` is what cannot go on without; it waits in the shard.
    """

    event: InitProducer | EndTransaction | TimedOut


class TimedOut(Struct):
    """The shard's own: an open transaction has taken too long. It has no token."""

    transactional_id: str
    producer: Producer
    token: None = None
