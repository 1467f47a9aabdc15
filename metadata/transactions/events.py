"""The events of a transaction shard, and its requests to its driver beyond answers and records.

An event with a ``token`` is answered exactly once. Errors are answered in the newest version's words; who answers a
client of an older version translates (`stratalog.metadata.transactions.errors`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The broker settings that transactions obey. Times in milliseconds; names and defaults are Kafka's."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_timed_out_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 3_600_000
    patience_ms: int = 100
    """How long a request waits for the end of the transaction before it, instead of being sent away to ask again."""
    version: int = 2
    """The cluster's transaction version, for what the coordinator ends by itself."""


@dataclass(slots=True)
class InitProducer:
    """InitProducerId with a transactional id. Answered with `InitProducerIdResponse`.

    ``expected``: who the producer was, if it goes on after an error (KIP-360). ``ids_from``: a producer id below it is
    replaced, for archives may know epochs of it that the coordinator does not.
    """

    token: Any
    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None
    ids_from: int = 0


@dataclass(slots=True)
class AddPartitions:
    """The transaction will write to these partitions. Answered with ``done``."""

    token: Any
    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    client_version: int
    done: Message
    waits: bool = True
    """Whether it may wait for the end of the transaction before. A broker that asks for others asks again itself."""


@dataclass(slots=True)
class VerifyPartitions:
    """Are these partitions in the transaction? Answered with an `AddPartitionsToTxnResponse` of one transaction."""

    token: Any
    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]


@dataclass(slots=True)
class EndTransaction:
    """Commit or abort, from the producer. Answered with `EndTxnResponse` when that is decided for good."""

    token: Any
    transactional_id: str
    producer: Producer
    commit: bool
    client_version: int


@dataclass(slots=True)
class MarkersWritten:
    """These partitions have their marker of the end that `SendMarkers` asked for, or are gone."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]


@dataclass(slots=True)
class ProducerIdAllocated:
    """The answer to `AllocateProducerId`: an unused id."""

    request: AllocateProducerId
    producer_id: int


@dataclass(slots=True)
class Retire:
    """The data directory went back in time: no producer of any transactional id goes on, open transactions are aborted.

    Answered with ``done`` when all of that is durable.
    """

    token: Any
    done: Message


@dataclass(slots=True)
class Describe:
    """Answered with a `DescribeTransactionsResponse` of one transaction."""

    token: Any
    transactional_id: str


@dataclass(slots=True)
class ListIds:
    """Answered with a `ListTransactionsResponse` of what passes all filters.

    ``states`` by name, empty for all; ``duration_ms`` below zero for all.
    """

    token: Any
    states: frozenset[str]
    producer_ids: frozenset[int]
    duration_ms: int


@dataclass(slots=True)
class SendMarkers:
    """Action: write the end of a transaction to these partitions, until it stands there.

    The driver reports with `MarkersWritten`, in as many parts as it likes. Asked again after a reload, so the same
    marker may be written twice.
    """

    transactional_id: str
    producer: Producer
    commit: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


@dataclass(slots=True)
class AllocateProducerId:
    """Action: get a producer id and say so with `ProducerIdAllocated`, or fail ``event``'s token.

    ``event`` is what cannot go on without; it waits in the shard.
    """

    event: InitProducer | EndTransaction | TimedOut


@dataclass(slots=True)
class TimedOut:
    """The shard's own: an open transaction has taken too long. It has no token."""

    transactional_id: str
    producer: Producer
    token: None = None
