"""One transactional id: who produces under it, what its transaction touches, and how both change.

Pure. Every change names the moment and returns nothing; the shard writes the record of what has become. Sources:
KIP-98, KIP-360 (going on after an error), KIP-890 (an epoch for every transaction), Kafka's ``TransactionMetadata``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import Struct, field

from stratalog.metadata.coordination import CoordinatorRecord, Producer
from stratalog.metadata.transactions.status import PRECEDING, TransactionStatus
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.records.transaction import (
    PartitionsSchema,
    TransactionLogValue,
    encode_key,
    encode_value,
)
from stratalog.wire.topic import TopicPartition

__all__ = ["EPOCH_BUMP_SINCE", "EPOCH_MAX", "NO_EPOCH", "NO_ID", "End", "Transaction", "epoch_exhausted"]

NO_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 0x7FFF
EPOCH_BUMP_SINCE: Final = 2
"""The transaction version (KIP-890) from which on every end raises the epoch."""


def epoch_exhausted(epoch: int) -> bool:
    """Whether no producer may be given a higher epoch: the last one is kept for taking its transaction from it."""
    return epoch >= EPOCH_MAX - 1


class End(NamedTuple):
    """The latest transaction of an id as its log had it: its status, by whom, and when that was written."""

    status: TransactionStatus
    producer_epoch: int
    client_version: int
    last_update_ms: int


class Transaction(Struct, kw_only=True):
    """The state of one transactional id. Times are of the wall clock, in milliseconds."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_ID
    """The producer id before the last change."""
    next_producer_id: int = NO_ID
    """The producer has been given this one to go on with; it becomes ``producer_id`` when the end is complete."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch before the present one, if the present one went to the same producer; not kept in the log."""
    timeout_ms: int
    status: TransactionStatus = TransactionStatus.EMPTY
    partitions: set[TopicPartition] = field(default_factory=set)
    """The partitions that the transaction touches; while it is being ended, those that still lack a marker."""
    start_ms: int = -1
    last_update_ms: int
    client_version: int = 0
    """The transaction version (KIP-890) by which the producer works."""
    retired_from: End | None = None
    """The state before the producer was retired; not kept in the log."""

    # -- answers -----------------------------------------------------------------------------------------------------

    @property
    def producer(self) -> Producer:
        """The producer that may work on the transaction."""
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def promised(self) -> Producer:
        """The producer that may work on the next transaction, as the answer to the end of this one says."""
        return self.producer if self.next_producer_id == NO_ID else Producer(self.next_producer_id, 0)

    def ends_for(self, producer: Producer) -> bool:
        """Whether it is being ended, and this is who goes on after the end; or its epoch for the end, if that is the last."""
        return self.status.ending and producer in {self.promised, self.producer}

    def may_go_on(self, expected: Producer) -> bool:
        """Whether this may be the producer itself, going on after an error (its epoch is looked at later)."""
        gave_up = epoch_exhausted(expected.producer_epoch) or expected.producer_epoch == self.last_producer_epoch
        repeats = expected.producer_id == self.previous_producer_id and gave_up
        return repeats or expected.producer_id in (self.producer_id, self.promised.producer_id)

    @property
    def committing(self) -> bool:
        """Whether it is committed, for one that is decided."""
        return self.status in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)

    @property
    def latest_end(self) -> End:
        """How the latest transaction stood, before its producer was retired."""
        now = End(self.status, self.producer_epoch, self.client_version, self.last_update_ms)
        return self.retired_from or now

    @property
    def is_retired(self) -> bool:
        """Whether no producer has the present epoch."""
        return self.producer_epoch == EPOCH_MAX and self.next_producer_id == NO_ID

    def record(self) -> CoordinatorRecord:
        """The record of the state as it is."""
        by_topic: defaultdict[str, list[int]] = defaultdict(list)
        for topic, number in sorted(self.partitions):
            by_topic[topic].append(number)
        partitions = [PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in by_topic.items()]
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.status,
            transaction_partitions=None if self.status is TransactionStatus.EMPTY else partitions,
            transaction_last_update_timestamp_ms=self.last_update_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )
        return CoordinatorRecord(encode_key(self.transactional_id), encode_value(value))

    @classmethod
    def from_value(cls, transactional_id: str, value: TransactionLogValue) -> Transaction:
        """The state that a record holds. Raises `Corrupt` for a status that does not exist."""
        try:
            status = TransactionStatus(value.transaction_status)
        except ValueError as error:
            raise Corrupt(
                f"transactional id {transactional_id!r} has the unknown status {value.transaction_status}"
            ) from error
        return cls(
            transactional_id=transactional_id,
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            timeout_ms=value.transaction_timeout_ms,
            status=status,
            partitions={
                TopicPartition(topic.topic, number)
                for topic in value.transaction_partitions or ()
                for number in topic.partition_ids
            },
            start_ms=value.transaction_start_timestamp_ms,
            last_update_ms=value.transaction_last_update_timestamp_ms,
            client_version=value.client_transaction_version,
        )

    # -- changes ----------------------------------------------------------------------------------------------------

    def begin_producer(
        self, expected: Producer | None, timeout_ms: int, fresh_id: int | None, now_ms: int, *, ids_from: int = 0
    ) -> bool:
        """A producer starts, or (``expected`` is who it was) goes on after an error (KIP-360).

        Its epochs may have run out, or its id be below ``ids_from``: then it gets a new producer id. False, and nothing
        changed, if none is given. Raises PRODUCER_FENCED for one that is neither the present producer nor repeats the
        call that made it the present one.
        """
        epoch = self.producer_epoch
        if expected is not None and epoch != NO_EPOCH and expected != self.producer:
            if expected.producer_epoch != self.last_producer_epoch:
                raise KafkaError(
                    ErrorCode.PRODUCER_FENCED,
                    f"transactional id {self.transactional_id!r} was taken over: its producer has epoch {epoch}, not "
                    f"{expected.producer_epoch}",
                )
            previous = self.previous_producer_id
            self._enter(TransactionStatus.EMPTY, now_ms)
            self.previous_producer_id = previous  # the answer to the first call was lost, and may be again
        elif epoch_exhausted(epoch) or self.producer_id < ids_from:
            if fresh_id is None:
                return False
            self._enter(TransactionStatus.EMPTY, now_ms)
            self.producer_id, self.producer_epoch = fresh_id, 0
            self.last_producer_epoch = NO_EPOCH if expected is None else epoch
        else:
            self._enter(TransactionStatus.EMPTY, now_ms)
            self.producer_epoch = epoch + 1
            self.last_producer_epoch = NO_EPOCH if expected is None else epoch
        self.partitions = set()
        self.start_ms = -1
        self.timeout_ms = timeout_ms
        self.retired_from = None
        return True

    def add(self, partitions: Iterable[TopicPartition], client_version: int, now_ms: int) -> None:
        """The transaction, begun if none is going on, touches these too."""
        begins = self.status.resting
        self._enter(TransactionStatus.ONGOING, now_ms)
        if begins:
            self.start_ms = now_ms
            self.partitions = set()
        self.partitions.update(partitions)
        self.client_version = client_version

    def decide(self, *, commit: bool, client_version: int, fence: bool, fresh_id: int | None, now_ms: int) -> bool:
        """Commit or abort, for good. ``fence``: it is taken from its producer.

        False, and nothing changed, if the epoch cannot be raised without a new producer id and none is given.
        """
        raises_epoch = client_version >= EPOCH_BUMP_SINCE
        if raises_epoch and epoch_exhausted(self.producer_epoch) and fresh_id is None:
            return False
        if self.status.resting:  # an abort of nothing
            self.start_ms = now_ms
            self.partitions = set()
        self._enter(TransactionStatus.PREPARE_COMMIT if commit else TransactionStatus.PREPARE_ABORT, now_ms)
        if raises_epoch:
            self.last_producer_epoch = self.producer_epoch
            if epoch_exhausted(self.producer_epoch):
                assert fresh_id is not None
                self.next_producer_id = fresh_id
            self.producer_epoch = min(self.producer_epoch + 1, EPOCH_MAX)
        elif fence:
            self.last_producer_epoch = NO_EPOCH
            self.producer_epoch = min(self.producer_epoch + 1, EPOCH_MAX)
        self.client_version = client_version
        return True

    def retire(self, now_ms: int) -> None:
        """No producer that has this id goes on: the epoch becomes one that none is given. An open transaction is aborted.

        The next producer to start gets another id. Not for a transaction that is being ended.
        """
        self.retired_from = self.latest_end
        if self.status is TransactionStatus.ONGOING:
            self.decide(commit=False, client_version=0, fence=True, fresh_id=None, now_ms=now_ms)
        else:
            self._enter(TransactionStatus.EMPTY, now_ms)
            self.partitions, self.start_ms = set(), -1
        self.producer_epoch, self.last_producer_epoch = EPOCH_MAX, NO_EPOCH

    def complete(self, now_ms: int) -> None:
        """Every partition has its marker."""
        committed = self.status is TransactionStatus.PREPARE_COMMIT
        self._enter(TransactionStatus.COMPLETE_COMMIT if committed else TransactionStatus.COMPLETE_ABORT, now_ms)
        if self.next_producer_id != NO_ID:
            self.producer_id, self.producer_epoch = self.next_producer_id, 0
            self.next_producer_id = NO_ID
        self.partitions = set()

    def _enter(self, status: TransactionStatus, now_ms: int) -> None:
        assert self.status in PRECEDING[status], f"{self.transactional_id}: from {self.status.title} to {status.title}"
        self.status = status
        self.previous_producer_id = self.producer_id
        self.last_update_ms = now_ms
