"""Appending: validate, assign, queue. Nothing here touches the disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from stratalog.hot.log_state import LogState
from stratalog.hot.producer_state import AppendOrigin, EndMarker
from stratalog.hot.replay import apply_stored_batch
from stratalog.hot.segment import Segment
from stratalog.hot.transaction_index import AbortedTxn
from stratalog.hot.validation import HeaderFields, check_follower_batches, check_leader_batch, read_end_marker
from stratalog.wire.batch import BatchHeader, assign_offset, rewrite_timestamp
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError

__all__ = ["AppendInfo", "LogAppend"]

_CONTROL: Final = 0x20
_TRANSACTIONAL: Final = 0x10


class AppendInfo(NamedTuple):
    """Where a batch stands (or, for a ``duplicate``, has stood since its first copy)."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 unless the topic stamps batches itself."""
    duplicate: bool = False
    rolled: bool = False
    """The batch opened a new segment."""


_append_info = partial(tuple.__new__, AppendInfo)
"""An `AppendInfo` from a tuple of all its fields, at half the cost: one is made for every batch."""


class LogAppend(LogState):
    """The appending half of a log."""

    __slots__ = ()

    def append_as_leader(
        self,
        records: memoryview | bytearray,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        release: Callable[[], None] | None = None,
    ) -> AppendInfo:
        """Check one batch, give it its place and queue it; ``records`` is changed in place and kept until written.

        ``release`` is called exactly once: when the bytes are in the file, or not needed (duplicate, refusal).
        Raises `KafkaError`: the codes of `check_leader_batch` and of `ProducerStateManager`, FENCED_LEADER_EPOCH
        below the epoch of the last batch, KAFKA_STORAGE_ERROR after a failed write; then nothing is queued.
        """
        try:
            if self._failed is not None or leader_epoch < self.leader_epochs.latest_epoch:
                raise self._refusal(leader_epoch)
            fields = check_leader_batch(records, self.config, origin, now_ms, self.topic_partition)
            verdict = None
            if fields[9] >= 0:
                verdict = self._check_producer(fields, records, origin, transaction_version)
        except KafkaError:
            if release is not None:
                release()
            raise
        if isinstance(verdict, AppendInfo):
            if release is not None:
                release()
            return verdict
        if release is not None:
            self._releases.append(release)
        return self._take(records, fields, verdict, leader_epoch, now_ms)

    def _take(
        self,
        records: memoryview | bytearray,
        fields: HeaderFields,
        marker: EndMarker | None,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendInfo:
        """A batch that passed every check gets its place."""
        base_offset = self.log_end_offset
        last_offset = base_offset + fields[6]
        max_timestamp = fields[8]
        assign_offset(records, 0, base_offset, fields[1], leader_epoch)
        log_append_time_ms = -1
        if self.config.message_timestamp_type == "LogAppendTime":
            rewrite_timestamp(records, 0, now_ms)
            log_append_time_ms = max_timestamp = now_ms
        segment = self._segments.active
        rolled = segment.must_roll(len(records), last_offset, max_timestamp, now_ms)
        if rolled:
            segment = self._begin_segment(base_offset)
        segment.queue(records, last_offset, max_timestamp, now_ms)
        if not self._dirty or self._dirty[-1] is not segment:
            self._dirty.append(segment)
        if leader_epoch != self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if fields[9] >= 0:
            self._apply_producer(fields, marker, base_offset, max_timestamp, segment)
        self.log_end_offset = self.producer_state.end_offset = last_offset + 1
        return _append_info((base_offset, last_offset, log_append_time_ms, False, rolled))

    def _check_producer(
        self,
        fields: HeaderFields,
        records: memoryview | bytearray,
        origin: AppendOrigin,
        transaction_version: int,
    ) -> AppendInfo | EndMarker | None:
        """Idempotence and transactions; the earlier append of a duplicate, or the marker of a control batch."""
        state = self.producer_state
        attributes, producer_id = fields[5], fields[9]
        if attributes & _CONTROL:
            try:
                marker = read_end_marker(records)
            except Corrupt as error:
                raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
            if marker is not None:
                state.check_marker(marker, transaction_version)
            return marker
        transactional = bool(attributes & _TRANSACTIONAL)
        if origin is not AppendOrigin.CLIENT:
            state.check_producer_epoch(producer_id, fields[10])
            state.check_transaction_state(producer_id, transactional=transactional)
            return None
        earlier = state.check_batch(
            producer_id,
            fields[10],
            fields[11],
            fields[6],
            transactional=transactional,
            transaction_version=transaction_version,
        )
        if earlier is None:
            return None
        return AppendInfo(earlier.first_offset, earlier.last_offset, earlier.timestamp_ms, duplicate=True)

    def _apply_producer(
        self, fields: HeaderFields, marker: EndMarker | None, base_offset: int, max_timestamp: int, segment: Segment
    ) -> None:
        state = self.producer_state
        if not fields[5] & _CONTROL:
            state.apply_batch(
                fields[9],
                fields[10],
                fields[11],
                base_offset=base_offset,
                last_offset=base_offset + fields[6],
                timestamp_ms=max_timestamp,
                transactional=bool(fields[5] & _TRANSACTIONAL),
            )
        elif marker is not None:
            completed = state.apply_marker(marker, base_offset)
            if completed is not None and completed.aborted:
                first, last, stable = completed.first_offset, completed.last_offset, completed.last_stable_offset
                segment.aborted.append(AbortedTxn(completed.producer_id, first, last, stable))

    def append_as_follower(
        self,
        records: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        release: Callable[[], None] | None = None,
    ) -> AppendInfo | None:
        """Queue batches as the leader wrote them, offsets kept; those of a later epoch than ``leader_epoch`` not.

        Returns what was taken, None if nothing. Raises `KafkaError`: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE for
        offsets below the log end, KAFKA_STORAGE_ERROR; then nothing is queued. ``release`` as for leaders.
        """
        try:
            if self._failed is not None:
                raise self._refusal(leader_epoch)
            batches = check_follower_batches(records, self.log_end_offset, leader_epoch, self.topic_partition)
        except KafkaError:
            if release is not None:
                release()
            raise
        if release is not None:
            if batches:
                self._releases.append(release)
            else:
                release()
        for header, batch in batches:
            self._take_replica(header, batch, now_ms)
        return AppendInfo(batches[0][0].base_offset, batches[-1][0].last_offset, -1) if batches else None

    def _take_replica(self, header: BatchHeader, batch: memoryview, now_ms: int) -> None:
        """A batch that a leader has placed already."""
        if header.base_offset > self.log_end_offset:
            self.gaps_below = header.base_offset
        segment = self._segments.active
        if segment.must_roll(len(batch), header.last_offset, header.max_timestamp, now_ms):
            segment = self._begin_segment(header.base_offset)
        segment.queue(batch, header.last_offset, header.max_timestamp, now_ms)
        if not self._dirty or self._dirty[-1] is not segment:
            self._dirty.append(segment)
        if header.partition_leader_epoch >= 0:
            self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        aborted = apply_stored_batch(self.producer_state, header, batch)
        if aborted is not None:
            segment.aborted.append(aborted)
        self.log_end_offset = header.next_offset

    def assign_leader_epoch(self, epoch: int) -> None:
        """From now on this replica leads: ``epoch`` begins at the log end. Stored with a roll or the stop after its first batch."""
        self.leader_epochs.begin(epoch, self.log_end_offset)
