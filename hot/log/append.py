"""Appends: checks a batch, gives it its place, queues it. Writes nothing.

A batch is first checked by all rules, then placed: no refused batch leaves a trace. The only files that are read are the
indexes of an active segment, before the first append after a start, and before anything changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from stratalog.hot.log.gaps import LogGaps
from stratalog.hot.log.place import LogPlace
from stratalog.hot.log.tail import LogTail
from stratalog.hot.recovery.replay import apply_stored_batch
from stratalog.hot.segments.segment import RELATIVE_OFFSET_MAX, Segment
from stratalog.hot.segments.segments import SegmentList
from stratalog.hot.segments.transaction_index import AbortedTxn
from stratalog.hot.state.leader_epochs import LeaderEpochCache
from stratalog.hot.state.producer_state import AppendOrigin, EndMarker, ProducerStateManager
from stratalog.hot.state.validation import HeaderFields, check_follower_batches, check_leader_batch, read_end_marker
from stratalog.wire.batch import BatchHeader, assign_offset, rewrite_timestamp
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError

__all__ = ["AppendInfo", "LogAppender"]

_CONTROL: Final = 0x20
_TRANSACTIONAL: Final = 0x10
_EXPIRY_CHECK_MS: Final = 600_000


class AppendInfo(NamedTuple):
    """Where a batch stands (or, for a ``duplicate``, has stood since its first copy)."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 unless the topic stamps batches itself."""
    duplicate: bool = False
    rolled: bool = False
    """True if the batch opened a new segment."""


_append_info = partial(tuple.__new__, AppendInfo)
"""An `AppendInfo` from a tuple of all its fields, at half the cost: one is made for every batch."""


class LogAppender:
    """Gives batches their offsets, and checks them by the history of leaders and producers.

    ``epochs`` and ``producers`` cover the same batches as the log: all three end at the log end.
    """

    __slots__ = ("_epochs", "_gaps", "_next_expiry_ms", "_place", "_producers", "_segments", "_tail")

    def __init__(
        self,
        place: LogPlace,
        segments: SegmentList,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        tail: LogTail,
        gaps: LogGaps,
    ) -> None:
        self._place = place
        self._segments = segments
        self._epochs = epochs
        self._producers = producers
        self._tail = tail
        self._gaps = gaps
        self._next_expiry_ms = 0

    def append_as_leader(
        self,
        records: memoryview | bytearray,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        transaction_version: int,
        release: Callable[[], None] | None,
    ) -> AppendInfo:
        """Check one batch, give it its place and queue it; ``records`` is changed in place and kept until written.

        ``release`` is called once, when the bytes are in the file or were there already; not where this raises.
        Raises `KafkaError`: the codes of `check_leader_batch` and of `ProducerStateManager`, FENCED_LEADER_EPOCH
        below the epoch of the last batch, KAFKA_STORAGE_ERROR after a failed write; and `OSError`. Then nothing is queued.
        """
        place = self._place
        if self._tail.failed is not None or leader_epoch < self._epochs.latest_epoch:
            raise self._refusal(leader_epoch)
        fields = check_leader_batch(records, place.config, origin, now_ms, place.topic_partition)
        verdict = None
        if fields[9] >= 0:
            verdict = self._check_producer(fields, records, origin, transaction_version)
        if verdict is not None and isinstance(verdict, AppendInfo):
            if release is not None:
                release()
            return verdict
        return self._take(records, fields, verdict, leader_epoch, now_ms, release)

    def _refusal(self, leader_epoch: int) -> KafkaError:
        """The reason why this log takes no append now."""
        if self._tail.failed is not None:
            return KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self._place.topic_partition} takes no appends after a failed write: {self._tail.failed}",
            )
        return KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {leader_epoch} of {self._place.topic_partition} is over: the log has epoch "
            f"{self._epochs.latest_epoch}",
        )

    def _take(
        self,
        records: memoryview | bytearray,
        fields: HeaderFields,
        marker: EndMarker | None,
        leader_epoch: int,
        now_ms: int,
        release: Callable[[], None] | None,
    ) -> AppendInfo:
        """Give a batch that passed every check its place."""
        tail = self._tail
        base_offset = tail.end_offset
        last_offset = base_offset + fields[6]
        max_timestamp = fields[8]
        assign_offset(records, 0, base_offset, fields[1], leader_epoch)
        log_append_time_ms = -1
        if self._place.config.message_timestamp_type == "LogAppendTime":
            rewrite_timestamp(records, 0, now_ms)
            log_append_time_ms = max_timestamp = now_ms
        segment = self._segments.active
        rolled = segment.must_roll(len(records), last_offset, max_timestamp, now_ms)
        if release is not None:
            tail.release_when_written(release)
        if rolled:
            segment = tail.begin_segment(base_offset)
        tail.queue(segment, records, last_offset, max_timestamp, now_ms)
        if leader_epoch != self._epochs.latest_epoch:
            self._epochs.assign(leader_epoch, base_offset)
        if fields[9] >= 0:
            self._apply_producer(fields, marker, base_offset, max_timestamp, segment)
        self._producers.end_offset = last_offset + 1
        return _append_info((base_offset, last_offset, log_append_time_ms, False, rolled))

    def _check_producer(
        self,
        fields: HeaderFields,
        records: memoryview | bytearray,
        origin: AppendOrigin,
        transaction_version: int,
    ) -> AppendInfo | EndMarker | None:
        """Idempotence and transactions; the earlier append of a duplicate, or the marker of a control batch."""
        state = self._producers
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
        state = self._producers
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
        self, records: memoryview, leader_epoch: int, now_ms: int, release: Callable[[], None] | None
    ) -> AppendInfo | None:
        """Queue batches with the leader's offsets, except those of a later epoch than ``leader_epoch``.

        Returns what was taken, None if nothing. Raises `KafkaError`: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE for
        offsets below the log end, KAFKA_STORAGE_ERROR; then nothing is queued. ``release`` is called once, also where this raises.
        """
        tail = self._tail
        try:
            if tail.failed is not None:
                raise self._refusal(leader_epoch)
            batches = check_follower_batches(records, tail.end_offset, leader_epoch, self._place.topic_partition)
        except KafkaError:
            if release is not None:
                release()
            raise
        if release is not None:
            if batches:
                tail.release_when_written(release)
            else:
                release()
        for header, batch in batches:
            self._take_replica(header, batch, now_ms)
        return AppendInfo(batches[0][0].base_offset, batches[-1][0].last_offset, -1) if batches else None

    def _take_replica(self, header: BatchHeader, batch: memoryview, now_ms: int) -> None:
        """Queue a batch that its leader has placed already."""
        tail = self._tail
        if header.record_count <= header.last_offset_delta:
            self._gaps.expect(header.next_offset)
        elif header.base_offset > tail.end_offset:
            self._gaps.expect(header.base_offset)
        segment = self._segments.active
        if segment.must_roll(len(batch), header.last_offset, header.max_timestamp, now_ms):
            segment = tail.begin_segment(self._base_of_copy(header))
        tail.queue(segment, batch, header.last_offset, header.max_timestamp, now_ms)
        if header.partition_leader_epoch >= 0:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        aborted = apply_stored_batch(self._producers, header, batch)
        if aborted is not None:
            segment.aborted.append(aborted)

    def _base_of_copy(self, header: BatchHeader) -> int:
        """Where a segment begins with this batch: at the log end, for a gap between two segments looks like a lost tail.

        Behind a gap larger than a segment it has to begin with the batch. Then all before is synced first.
        """
        end_offset = self._tail.end_offset
        if header.last_offset - end_offset <= RELATIVE_OFFSET_MAX:
            return end_offset
        self._tail.sync_segments()
        self._gaps.expect_at_borders(header.base_offset)
        return header.base_offset

    def forget_idle_producers(self, now_ms: int) -> None:
        """Forget producers that were idle for ``producer.id.expiration.ms``; looks every ten minutes at most.

        As in Kafka, not at once: a retry of old events after a restart must still find its first attempt.
        """
        if 0 < self._next_expiry_ms - now_ms <= _EXPIRY_CHECK_MS:
            return
        if self._next_expiry_ms:  # else this is the first call; a clock that was set back delays nothing
            self._producers.remove_expired(now_ms, self._place.config.producer_id_expiration_ms)
        self._next_expiry_ms = now_ms + _EXPIRY_CHECK_MS
