"""Appends of transactions wait here until their coordinator has let the partition in (KIP-890).

Only the first batch of a transaction in a partition comes this way: as long as the transaction is open there, the
log itself knows. Batches of a producer to one partition keep their order while the first of them waits, and share
its fate. A yes is void once the transaction's marker stands in the partition: the append would open a transaction
without an end. Another broker may write it between two leaderships, so a yes counts in the one that asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct, field

from stratalog.broker.coordinators.partition_markers import TransactionMarker
from stratalog.broker.replicas.leader import Leader
from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.events import AddPartitions, VerifyPartitions
from stratalog.metadata.transactions.transaction import EPOCH_BUMP_SINCE
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from stratalog.wire.topic import TopicPartition

__all__ = ["Enlisted", "Enlistment"]

_ADDED: Final = AddPartitionsToTxnResponse()
"""The coordinator's answer to `AddPartitions`: nothing but that it is done."""


class Enlisted(Protocol):
    """An append that waits for its transaction."""

    partition: TopicPartition
    leader: Leader
    """The leadership in which it came. In another one `go_on` appends nothing."""

    def go_on(self) -> None:
        """The partition is in the transaction: append."""
        ...

    def refuse(self, error: KafkaError) -> None:
        """It is not."""
        ...


class _Place(Struct):
    """A partition that one producer waits for, in one leadership."""

    leader: Leader
    waiting: list[Enlisted] = field(default_factory=list)
    ended: bool = False
    """The marker of this very transaction has been written meanwhile."""


class Enlistment:
    """Appends that wait for coordinators, by partition and producer."""

    def __init__(self, ask: Callable[[str, Any], None]) -> None:
        self._ask = ask
        self._places: dict[tuple[TopicPartition, Producer], _Place] = {}

    def enlist(self, transactional_id: str, producer: Producer, appends: Sequence[Enlisted], *, adds: bool) -> None:
        """Let the appends go on when their partitions are in the transaction, refuse them if they are not.

        ``adds``: the partitions are added (transactions v2); otherwise they must have been before.
        """
        wanted: dict[TopicPartition, _Place] = {}
        for one in appends:
            place = self._places.get((one.partition, producer))
            if place is None or place.leader is not one.leader:
                place = self._places[one.partition, producer] = wanted[one.partition] = _Place(one.leader)
            place.waiting.append(one)
        if not wanted:
            return
        partitions = frozenset(wanted)
        token = _Verdict(self, producer, wanted)
        if adds:
            event: Any = AddPartitions(token, transactional_id, producer, partitions, EPOCH_BUMP_SINCE, _ADDED)
        else:
            event = VerifyPartitions(token, transactional_id, producer, partitions)
        self._ask(transactional_id, event)

    def is_asking(self, partition: TopicPartition, producer: Producer) -> bool:
        """Whether appends of the producer wait here: none behind them goes straight to the log."""
        return (partition, producer) in self._places if self._places else False

    def marked(self, partition: TopicPartition, marker: TransactionMarker) -> None:
        """A marker takes its place in the partition.

        Under v2 its epoch is that of the next transaction, which may wait here already; the log refuses the one
        before. Under v1 the epoch stays, and the next one cannot have been let in before the marker stands.
        """
        if self._places and marker.transaction_version < EPOCH_BUMP_SINCE:
            place = self._places.get((partition, marker.producer))
            if place is not None:
                place.ended = True

    def settle(
        self, producer: Producer, partition: TopicPartition, place: _Place, code: ErrorCode, reason: str | None
    ) -> None:
        """The coordinator has spoken about one partition, for the appends that waited in ``place``."""
        if self._places.get((partition, producer)) is place:  # else a later leadership asks for itself
            del self._places[partition, producer]
        if not code and place.ended:
            code, reason = ErrorCode.INVALID_TXN_STATE, "the transaction was ended while its batch was on the way"
        for one in place.waiting:
            if code:
                one.refuse(KafkaError(code, reason))
            else:
                one.go_on()


class _Verdict:
    """The token of one question to a coordinator."""

    __slots__ = ("_enlistment", "_places", "_producer")

    def __init__(self, enlistment: Enlistment, producer: Producer, places: dict[TopicPartition, _Place]) -> None:
        self._enlistment = enlistment
        self._producer = producer
        self._places = places

    def respond(self, response: AddPartitionsToTxnResponse) -> None:
        """Added, or looked for: some may be in, others not."""
        codes = {
            TopicPartition(topic.name, one.partition_index): one.partition_error_code
            for result in response.results_by_transaction
            for topic in result.topic_results
            for one in topic.results_by_partition
        }
        for partition in sorted(self._places):
            code = ErrorCode(codes.get(partition, 0))
            reason = f"{partition} was not added to the transaction" if code else None
            self._enlistment.settle(self._producer, partition, self._places[partition], code, reason)

    def fail(self, error: BaseException) -> None:
        """None of them is in."""
        refusal = error if isinstance(error, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        for partition in sorted(self._places):
            self._enlistment.settle(self._producer, partition, self._places[partition], refusal.code, refusal.message)
