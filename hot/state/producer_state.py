"""Idempotence and transactions of one partition: accept a batch, recognise a duplicate, refuse the rest.

Pure. A batch is first checked (nothing changes), then applied once it has a place in the log. Sources: KIP-98,
KIP-360, KIP-890, KIP-1228, Kafka's ``ProducerStateManager`` and ``ProducerAppendInfo``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from enum import IntEnum
from typing import NamedTuple

from stratalog.hot.state.producer_snapshot import (
    BatchMetadata,
    ProducerEntry,
    snapshot_from_bytes,
    snapshot_to_bytes,
)
from stratalog.wire.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["AppendOrigin", "CompletedTransaction", "EndMarker", "ProducerStateManager"]

_SEQUENCES = 1 << 31
_EPOCH_BUMP_VERSION = 2


class AppendOrigin(IntEnum):
    """The kind of the appender; decides how much is checked."""

    REPLICATION = 0
    COORDINATOR = 1
    CLIENT = 2
    RAFT_LEADER = 3


class EndMarker(NamedTuple):
    """A transaction marker: the producer whose transaction ends, and how."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    timestamp_ms: int
    commit: bool


class CompletedTransaction(NamedTuple):
    """A transaction that its marker ended. ``last_offset`` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool
    last_stable_offset: int
    """The last stable offset as it stands behind the marker, for the transaction index."""


class ProducerStateManager:
    """The producers of one partition.

    ``first_unstable_offset`` is the first offset that a read_committed consumer must not pass: the start of the
    oldest transaction that is open, or ended by a marker not yet below the high watermark. None when there is none.
    """

    __slots__ = (
        "_before",
        "_kept_offset",
        "_open",
        "_undecided",
        "end_offset",
        "entries",
        "first_unstable_offset",
        "name",
    )

    def __init__(self, name: str = "") -> None:
        self.name = name
        """The topic partition, for messages."""
        self.entries: dict[int, ProducerEntry] = {}
        self.end_offset = 0
        """The log is applied up to here, exclusive."""
        self.first_unstable_offset: int | None = None
        self._open: dict[int, int] = {}  # first offset -> producer id, ascending
        self._undecided: dict[int, int] = {}  # first offset -> marker offset, ended above the high watermark
        self._before: dict[
            int, ProducerEntry | None
        ] = {}  # producers as they stood at the kept offset, if they have changed since
        self._kept_offset = -1

    # -- checks -------------------------------------------------------------------------------------------

    def check_batch(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_offset_delta: int,
        *,
        transactional: bool,
        transaction_version: int = 0,
    ) -> BatchMetadata | None:
        """Whether a client's data batch may be appended; returns the earlier append if it is a duplicate.

        ``transaction_version`` is that of a batch which begins a transaction. Under v2 each has an epoch of its own, so
        that sequences begin at 0 in it: an unknown producer's other batch has overtaken the first one. Under v1 sequences
        go on, and a marker may be all that the log has of a producer: its batches were in front of the log start when this
        copy began. It may go on anywhere, as one that is not known at all (decision 0073; Kafka demands 0).

        A duplicate in a transaction belongs to the one that is open. librdkafka uses sequences again that it purged with an
        aborted transaction: the next one's record would be answered as a duplicate of the aborted one, and lost (Kafka does).

        Raises `KafkaError`: INVALID_PRODUCER_EPOCH for an older epoch, OUT_OF_ORDER_SEQUENCE_NUMBER for a gap, a copy older
        than the last five batches or of an ended transaction, INVALID_TXN_STATE for a plain batch inside a transaction.
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            if base_sequence and transaction_version >= _EPOCH_BUMP_VERSION:
                raise self._out_of_order(producer_id, epoch, base_sequence, 0)
            return None
        if epoch == entry.producer_epoch and base_sequence != entry.last_sequence + 1:
            last_sequence = (base_sequence + last_offset_delta) % _SEQUENCES
            oldest_offset = entry.oldest_duplicate_offset if transactional else 0
            for batch in entry.batches:
                is_same = batch.last_sequence == last_sequence and batch.first_sequence == base_sequence
                if is_same and batch.first_offset >= oldest_offset:
                    return batch
        self._check_epoch(entry, epoch)
        self._check_sequence(entry, epoch, base_sequence, transaction_version)
        self.check_transaction_state(producer_id, transactional=transactional)
        return None

    def check_transaction_state(self, producer_id: int, *, transactional: bool) -> None:
        """Raises INVALID_TXN_STATE if a plain batch would land inside the producer's open transaction."""
        entry = self.entries.get(producer_id)
        if entry is not None and not transactional and entry.transaction_first_offset >= 0:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has a transaction open in {self.name} since offset "
                f"{entry.transaction_first_offset}; a batch outside of it is refused",
            )

    def check_producer_epoch(self, producer_id: int, epoch: int) -> None:
        """Raises INVALID_PRODUCER_EPOCH if a newer epoch of this producer has written (coordinators' appends)."""
        entry = self.entries.get(producer_id)
        if entry is not None:
            self._check_epoch(entry, epoch)

    def check_marker(self, marker: EndMarker, transaction_version: int) -> None:
        """Whether this marker may be appended.

        Raises INVALID_PRODUCER_EPOCH (transactions v2: the epoch must be above the last one, or equal with
        nothing open, which is a repeated marker) or TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self.entries.get(marker.producer_id)
        if entry is None:
            return
        current = entry.producer_epoch
        strict = transaction_version >= _EPOCH_BUMP_VERSION
        stale = marker.producer_epoch <= current if strict else marker.producer_epoch < current
        repeated = strict and marker.producer_epoch == current and entry.transaction_first_offset < 0
        if stale and not repeated:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the marker of producer {marker.producer_id} in {self.name} has epoch {marker.producer_epoch}, "
                f"the last seen one is {current} (transactions v{transaction_version})",
            )
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the marker of producer {marker.producer_id} in {self.name} comes from coordinator epoch "
                f"{marker.coordinator_epoch}, the last seen one is {entry.coordinator_epoch}",
            )

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether this producer, in this epoch, has a transaction open in this partition."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0 and entry.producer_epoch == epoch

    def is_open(self, producer_id: int) -> bool:
        """Whether this producer, in any epoch, has a transaction open in this partition."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0

    def _check_epoch(self, entry: ProducerEntry, epoch: int) -> None:
        if epoch < entry.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {entry.producer_id} wrote to {self.name} with epoch {epoch}, "
                f"which is older than the last seen epoch {entry.producer_epoch}",
            )

    def _check_sequence(self, entry: ProducerEntry, epoch: int, base_sequence: int, transaction_version: int) -> None:
        if entry.producer_epoch == NO_PRODUCER_EPOCH:
            return
        expected = self._expected_sequence(entry, epoch, base_sequence, transaction_version)
        if base_sequence != expected:
            raise self._out_of_order(entry.producer_id, epoch, base_sequence, expected)

    def _expected_sequence(self, entry: ProducerEntry, epoch: int, base_sequence: int, transaction_version: int) -> int:
        if epoch != entry.producer_epoch:
            return 0
        last = entry.last_sequence
        if last != NO_SEQUENCE:
            return (last + 1) % _SEQUENCES
        if transaction_version >= _EPOCH_BUMP_VERSION:
            return 0
        return base_sequence if entry.awaited_sequence == NO_SEQUENCE else entry.awaited_sequence

    def _out_of_order(self, producer_id: int, epoch: int, base_sequence: int, expected: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id} epoch {epoch} sent sequence {base_sequence} to {self.name}, expected {expected}",
        )

    # -- changes ------------------------------------------------------------------------------------------

    def apply_batch(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        *,
        base_offset: int,
        last_offset: int,
        timestamp_ms: int,
        transactional: bool,
    ) -> None:
        """A data batch of a producer now stands at ``[base_offset, last_offset]``."""
        entry = self.entries.get(producer_id)
        if producer_id not in self._before:
            self._before[producer_id] = None if entry is None else copy(entry)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        if entry.producer_epoch != epoch:
            entry.producer_epoch = epoch
            entry.kept = b""
        delta = last_offset - base_offset
        last_sequence = NO_SEQUENCE if base_sequence < 0 else (base_sequence + delta) % _SEQUENCES
        entry.remember(last_sequence, last_offset, delta, timestamp_ms)
        entry.last_timestamp_ms = timestamp_ms
        if transactional and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = base_offset
            self._open[base_offset] = producer_id
            self._update_unstable()

    def apply_marker(self, marker: EndMarker, offset: int) -> CompletedTransaction | None:
        """A marker now stands at ``offset``. Returns the transaction it ended, None if nothing was open."""
        entry = self.entries.get(marker.producer_id)
        if marker.producer_id not in self._before:
            self._before[marker.producer_id] = None if entry is None else copy(entry)
        if entry is None:
            entry = self.entries[marker.producer_id] = ProducerEntry(marker.producer_id)
        completed = None
        first_offset = entry.transaction_first_offset
        if first_offset >= 0:
            others = (first for first, producer in self._open.items() if producer != marker.producer_id)
            last_stable_offset = next(others, offset + 1)
            completed = CompletedTransaction(
                marker.producer_id, first_offset, offset, not marker.commit, last_stable_offset
            )
            self._open.pop(first_offset, None)
            self._undecided[first_offset] = offset
            entry.transaction_first_offset = -1
        if entry.producer_epoch != marker.producer_epoch:
            entry.producer_epoch = marker.producer_epoch
            entry.kept = b""
        entry.awaited_sequence = NO_SEQUENCE
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = marker.timestamp_ms
        if completed is not None:
            self._update_unstable()
        return completed

    def on_high_watermark(self, high_watermark: int) -> None:
        """Everything below ``high_watermark`` is on every in-sync replica: markers there are final."""
        if self._undecided:
            final = [first for first, marker in self._undecided.items() if marker < high_watermark]
            for first in final:
                del self._undecided[first]
            if final:
                self._update_unstable()

    def on_log_start(self, log_start_offset: int) -> None:
        """The log now begins at ``log_start_offset``."""
        self.on_high_watermark(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers idle for ``expiration_ms`` with no transaction open; returns how many."""
        idle = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.transaction_first_offset < 0 and now_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in idle:
            del self.entries[producer_id]
        return len(idle)

    # -- taking back --------------------------------------------------------------------------------------

    def keep(self) -> None:
        """All that was applied is in the file: `take_back` goes no further than here."""
        self._kept_offset = self.end_offset
        if self._before:
            self._before = {}

    def take_back(self, offset: int) -> bool:
        """Return to the state at ``offset``; False where that is not known, for it is not the last one that was kept.

        A log that finds no room gives up a few batches, and to read all of a segment for that would stop the loop for seconds.
        """
        if offset != self._kept_offset:
            return False
        for producer_id, entry in self._before.items():
            if entry is None:
                self.entries.pop(producer_id, None)
            else:
                self.entries[producer_id] = entry
        undecided = {first: marker for first, marker in self._undecided.items() if marker < offset}
        self.load(self.entries.values(), offset)
        self._undecided = undecided
        self._update_unstable()
        return True

    # -- snapshots ----------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The snapshot file of the state as it stands."""
        return snapshot_to_bytes(self.entries.values())

    def load(self, entries: Iterable[ProducerEntry], end_offset: int) -> None:
        """Start over from a snapshot taken at ``end_offset``."""
        self.entries = {entry.producer_id: entry for entry in entries}
        open_transactions = sorted(
            (entry.transaction_first_offset, entry.producer_id)
            for entry in self.entries.values()
            if entry.transaction_first_offset >= 0
        )
        self._open = dict(open_transactions)
        self._undecided = {}
        self.end_offset = end_offset
        self._update_unstable()
        self.keep()

    def take_over(self, other: ProducerStateManager) -> None:
        """Replace this state by that of ``other``: the log was cut, or begun anew. Do not use ``other`` any more."""
        self.entries = other.entries
        self.end_offset = other.end_offset
        self.first_unstable_offset = other.first_unstable_offset
        self._open = other._open
        self._undecided = other._undecided
        self.keep()

    def load_bytes(self, data: bytes, end_offset: int) -> None:
        """Start over from a snapshot file. Raises `Corrupt`."""
        self.load(snapshot_from_bytes(data), end_offset)

    def open_transactions(self) -> Iterator[tuple[int, ProducerEntry]]:
        """(first offset, producer) of each open transaction, oldest first."""
        for first, producer_id in self._open.items():
            yield first, self.entries[producer_id]

    def _update_unstable(self) -> None:
        candidates = [*self._undecided]
        first_open = next(iter(self._open), None)
        if first_open is not None:
            candidates.append(first_open)
        self.first_unstable_offset = min(candidates, default=None)
