"""One partition's local log: append, read, roll, sync, delete, truncate.

The owner drives it from one thread: `append_as_leader` assigns offsets and queues, `write_queued` brings what is
queued to the files with one ``writev`` a segment, `begin_sync` / `SyncTicket.run` / `finish_sync` make it
durable. Offsets obey ``log_start_offset <= local_log_start_offset <= flushed_offset <= written_offset <=
log_end_offset``. After an `OSError` the log refuses appends until `discard_unwritten` or a restart.

`Log` holds no state of its own. Each part of it owns some, and keeps one rule:

.. code-block:: text

    log start | segments ........ | tail: queued, written | log end
    LogStart    SegmentList         LogTail <- LogAppender (epochs, producers, LogGaps)
    DoomedFiles ProducerSnapshots   SyncCycles: flushed_offset

`hot.log.read` and `hot.log.times` read the segments; `hot.log.truncate`, `hot.log.restart`, `hot.log.compaction`,
`hot.log.moving` and `hot.log.close` change many parts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stratalog.hot.config import LogConfig
from stratalog.hot.log.aborted import find_aborted
from stratalog.hot.log.append import AppendInfo, LogAppender
from stratalog.hot.log.close import abandon, begin_close, summarise
from stratalog.hot.log.compaction import LogCompaction
from stratalog.hot.log.damage import cut_before_damage, missing_ranges, set_aside
from stratalog.hot.log.forgotten import ForgottenOffset
from stratalog.hot.log.moving import LogMoving
from stratalog.hot.log.parts import LogParts
from stratalog.hot.log.place import LogPlace
from stratalog.hot.log.read import LocalRead, read_slices
from stratalog.hot.log.restart import quarantine_and_restart, restart
from stratalog.hot.log.sync import SyncTicket
from stratalog.hot.log.times import ScanOn, max_timestamp_search, timestamp_search
from stratalog.hot.log.truncate import discard_unwritten, next_cut, truncate_to
from stratalog.hot.recovery.missing import MissingRange
from stratalog.hot.recovery.opening import LEADER_EPOCH_MAX, LoadedLog, OpenRequest
from stratalog.hot.recovery.recovery import load_log
from stratalog.hot.segments.batch_search import BatchSearch, TimestampOffset
from stratalog.hot.segments.log_summary import LogSummary
from stratalog.hot.segments.scan import OFFSET_MAX, UnreadableBatch
from stratalog.hot.segments.segment import SegmentInfo
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.segments.transaction_index import AbortedTxn
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.hot.state.log_bounds import LogBounds
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.hot.storage.removal import FileRemoval
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["AppendInfo", "AppendOrigin", "Log"]


class Log:
    """The log of one partition on one disk. The module names its parts and their callers."""

    __slots__ = (
        "_parts", "_segments", "appender", "compaction", "config", "cycles", "forgotten", "gaps", "leader_epochs", "moving",
        "producer_state", "recovery", "start", "tail", "topic_id", "topic_partition", "write_queued",
    )  # fmt: skip

    def __init__(self, place: LogPlace, loaded: LoadedLog, *, cleaned: bool = False) -> None:
        """``cleaned``: the cleaner was here once."""
        self._parts = parts = LogParts.of(place, loaded)
        self.gaps, self.start, self.tail = parts.gaps, parts.start, parts.tail
        self.gaps.cleaned = cleaned
        self._segments = parts.segments
        self.write_queued = parts.tail.write
        """Bring everything queued to the files; bound, because each write comes this way. Raises `OSError`."""
        self.cycles = parts.cycles
        self.appender = LogAppender(place, parts.segments, parts.epochs, parts.producers, parts.tail, parts.gaps)
        self.compaction = LogCompaction(parts)
        self.moving, self.forgotten = LogMoving(parts), ForgottenOffset()
        self.config, self.topic_partition, self.topic_id = place.config, place.topic_partition, place.topic_id
        self.recovery = loaded.report  # the findings and repairs of the start
        self.leader_epochs = parts.epochs
        self.producer_state = parts.producers

    @classmethod
    def open(
        cls,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        *,
        files: Filesystem,
        now_ms: int,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        cache: SegmentCache | None = None,
        may_have_gaps: bool = False,
        summary: LogSummary | None = None,
        known_gaps_below: int | None = None,
        known_border_gaps_below: int | None = None,
        leader_epoch_max: int = LEADER_EPOCH_MAX,
        refuse_damage: bool = False,
        durable_end: int = OFFSET_MAX,
        unsynced_may_go: bool = False,
        others_have_it: bool = False,
    ) -> Log:
        """Open the log in ``directory``, creating it if there is none, and recover what the last stop left.

        ``clean`` says that the directory's mark of a clean shutdown was found; otherwise everything from ``recovery_point``
        on is verified, and must be synced before it is served: ``flushed_offset`` is no higher until the first sync
        cycle. `OpenRequest` has the rest. Raises `OSError`, `Corrupt`.
        """
        cache = SegmentCache() if cache is None else cache
        request = OpenRequest(
            directory, topic_partition, topic_id, config, files, cache, now_ms, clean, recovery_point, log_start_offset,
            may_have_gaps, summary, known_gaps_below, known_border_gaps_below, leader_epoch_max, refuse_damage,
            durable_end, unsynced_may_go, others_have_it,
        )  # fmt: skip
        place = LogPlace(directory, topic_partition, topic_id, config, files, cache)
        return cls(place, load_log(request), cleaned=may_have_gaps)

    # -- offsets and sizes --------------------------------------------------------------------------------

    @property
    def directory(self) -> str:
        """Where its files lie."""
        return self._parts.place.directory

    @property
    def log_start_offset(self) -> int:
        """The first offset that anyone may read, here or in an archive."""
        return self.start.offset

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that can be read here."""
        return max(self.start.offset, self._segments[0].base_offset)

    @property
    def first_base_offset(self) -> int:
        """Where the first local segment begins: a batch border, never above the local log start."""
        return self._segments[0].base_offset

    @property
    def active_base_offset(self) -> int:
        """Where the active segment begins: everything local below it is frozen."""
        return self._segments.active.base_offset

    @property
    def flushed_offset(self) -> int:
        """The flushed offset: all below it is on the disk."""
        return self.cycles.flushed_offset

    @property
    def written_offset(self) -> int:
        """The written offset: all below it is in the files and can be read."""
        return self.tail.written_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.tail.end_offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of an undecided transaction, None when there is none."""
        offset = self.producer_state.first_unstable_offset
        return None if offset is None else max(offset, self.start.offset)

    @property
    def may_have_gaps(self) -> bool:
        """True if offsets may be missing: the topic is compacted, or was."""
        return self.config.compacted or self.gaps.cleaned

    @property
    def bounds(self) -> LogBounds:
        """The row of the log directory: where the log begins, and below where it may lack offsets."""
        return LogBounds(self.start.offset, *self.gaps.row(self.may_have_gaps, self.log_end_offset))

    @property
    def size_bytes(self) -> int:
        """Bytes of all local segments, queued ones included."""
        return sum(segment.size_bytes for segment in self._segments)

    def segments(self) -> list[SegmentInfo]:
        """Every local segment, oldest first. Raises `OSError`."""
        last = len(self._segments) - 1
        return [segment.info(active=number == last) for number, segment in enumerate(self._segments)]

    def update_config(self, config: LogConfig) -> None:
        """Apply new topic settings from the next append on."""
        self.config = self._parts.place.config = config
        for segment in self._segments:
            segment.config = config

    # -- appending ----------------------------------------------------------------------------------------

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
        """Check one batch, give it its place and queue it, as `LogAppender.append_as_leader`. Raises `KafkaError`.

        ``records`` is changed in place and kept until it is written.
        """
        return self.appender.append_as_leader(records, leader_epoch, now_ms, origin, transaction_version, release)

    def append_as_follower(
        self, records: memoryview, *, leader_epoch: int, now_ms: int, release: Callable[[], None] | None = None
    ) -> AppendInfo | None:
        """Queue batches as the leader wrote them, as `LogAppender.append_as_follower`. Raises `KafkaError`."""
        return self.appender.append_as_follower(records, leader_epoch, now_ms, release)

    def assign_leader_epoch(self, epoch: int) -> None:
        """Begin ``epoch`` at the log end, as its leader. It is stored with a roll or a stop after its first batch."""
        self.leader_epochs.begin(epoch, self.tail.end_offset)

    # -- writing and syncing ------------------------------------------------------------------------------

    @property
    def queued_bytes(self) -> int:
        """Bytes that the next `write_queued` will write."""
        return self.tail.queued_bytes

    def roll(self) -> bool:
        """Freeze the active segment if it holds anything, and open the next one. Raises `OSError`."""
        return self.tail.roll()

    def discard_unwritten(self) -> None:
        """Drop the queued records after a failed write. Raises `OSError` if it must be called again."""
        discard_unwritten(self._parts)

    @property
    def has_unsynced(self) -> bool:
        """True if a sync cycle would have work."""
        return self.cycles.pending

    @property
    def flush_due(self) -> bool:
        """True if ``flush.messages`` offsets, or a roll, may not be durable yet."""
        flushed, written = self.cycles.flushed_offset, self.tail.written_offset
        return written - flushed >= self.config.flush_messages or flushed < self._segments.active.base_offset

    def begin_sync(self) -> SyncTicket | None:
        """Start a sync cycle of everything written so far, as `SyncCycles.begin`; None if all is durable already."""
        return self.cycles.begin(self.tail.written_offset)

    def finish_sync(self, ticket: SyncTicket) -> None:
        """End a cycle: moves ``flushed_offset``. After a failed ticket it does not, and the log stops."""
        if ticket.done:
            self.cycles.finish()
        else:
            self.tail.failed = OSError(f"a sync of {self.directory} failed; its directory must go offline")

    def sync(self) -> None:
        """Run a whole sync cycle on this thread, epochs included. Raises `OSError`; without a descriptor call it again."""
        self.tail.write()
        self.cycles.store_epochs(self.tail.written_offset)
        ticket = self.begin_sync()
        if ticket is not None:
            try:
                self.cycles.run(ticket)
            finally:
                self.finish_sync(ticket)

    # -- reading ------------------------------------------------------------------------------------------

    def read(self, offset: int, *, max_bytes: int, max_offset: int, min_one_batch: bool = True) -> LocalRead:
        """File slices from the batch that holds ``offset``, ending on a batch border.

        At most ``max_bytes``, but with ``min_one_batch`` one batch at least; nothing at or above ``max_offset``
        (exclusive, a batch border such as the high watermark) nor beyond ``written_offset``. Raises `KafkaError`
        OFFSET_OUT_OF_RANGE outside ``[local_log_start_offset, log_end_offset]``, `MissingRange`, `UnreadableBatch`, and
        `OSError`.
        """
        first, tail = self._segments[0].base_offset, self.tail
        if offset < first or not self.start.offset <= offset <= tail.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic_partition} is outside of "
                f"[{self.local_log_start_offset}, {tail.end_offset}]",
            )
        end = min(max_offset, tail.written_offset)
        return read_slices(self._segments, offset, max_bytes=max_bytes, end_offset=end, min_one_batch=min_one_batch)

    def read_range(self, base_offset: int, end_offset: int) -> LocalRead:
        """Exactly the batches of ``[base_offset, end_offset)``, both batch borders, for the archive.

        The log start may lie inside: objects begin on batch borders. Raises `KafkaError` OFFSET_OUT_OF_RANGE for
        what is no longer here, `MissingRange`, `UnreadableBatch`, and `OSError`.
        """
        first, written = self.first_base_offset, self.tail.written_offset
        if not first <= base_offset < end_offset <= written:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offsets [{base_offset}, {end_offset}) of {self.topic_partition} are not all on this disk, which "
                f"holds [{first}, {written})",
            )
        for missing in self.missing_ranges():
            if missing.base_offset < end_offset and base_offset < missing.end_offset:
                raise missing
        size_bytes = self.size_bytes
        return read_slices(self._segments, base_offset, max_bytes=size_bytes, end_offset=end_offset, min_one_batch=True)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that touch ``[from_offset, to_offset)``. Raises `OSError`."""
        return find_aborted(self._parts, from_offset, to_offset)

    def missing_ranges(self) -> list[MissingRange]:
        """The ranges that were damaged on this disk and cannot be read from it, in the order in which they were found."""
        return missing_ranges(self._parts, self.recovery)

    def set_aside(self, damage: UnreadableBatch, *, rolls: bool = False) -> MissingRange | None:
        """Serve a frozen segment up to its first bad batch, as `hot.log.damage.set_aside`. Raises `OSError`."""
        return set_aside(self._parts, self.recovery, damage, rolls=rolls)

    def timestamp_search(self, timestamp_ms: int, from_offset: int, *, max_offset: int) -> BatchSearch | ScanOn | None:
        """The first local batch that may hold a record at or after ``timestamp_ms`` in ``[from_offset, max_offset)``.

        None: there is none. If the batch holds none, look again from its ``next_offset``. Raises `OSError`, `Corrupt`.
        """
        start_offset, end_offset = max(from_offset, self.local_log_start_offset), self.tail.written_offset
        return timestamp_search(self._segments, timestamp_ms, start_offset, min(max_offset, end_offset))

    def max_timestamp_search(self) -> BatchSearch | TimestampOffset | None:
        """The local record with the largest timestamp, or its batch. Raises `OSError`, `Corrupt`."""
        return max_timestamp_search(self._segments)

    def producer_snapshot_at(self, offset: int) -> bytes:
        """The snapshot file of the producers as they stood at ``offset``, a batch border. Raises `OSError`."""
        end_state = self.producer_state if offset == self.tail.end_offset else None
        return self._parts.snapshots.bytes_at(offset, end_state)

    # -- getting shorter ----------------------------------------------------------------------------------

    def advance_log_start(self, offset: int) -> bool:
        """Let readers begin at ``offset``, as `LogStart.advance`; False if they do already. Raises `KafkaError`."""
        return self.start.advance(offset)

    def delete_local_before(self, offset: int) -> int:
        """Remove the frozen segments wholly below ``offset``, as `LogStart.delete_local_before`; returns how many."""
        return self.start.delete_local_before(offset)

    def take_removal(self, now_ms: int) -> FileRemoval | None:
        """Hand over files that have left the log long enough ago, as `DoomedFiles.take_removal`. Raises `OSError`."""
        self.start.go_on_leaving()
        return self._parts.doomed.take_removal(now_ms)

    def next_cut(self, offset: int) -> int | None:
        """Where to `truncate_to` in this turn of the loop, on the way to ``offset``; as `hot.log.truncate.next_cut`."""
        return next_cut(self._parts, offset)

    def truncate_to(self, offset: int) -> None:
        """Remove every batch with a record at or above ``offset``; see `hot.log.truncate`. Raises `OSError`."""
        truncate_to(self._parts, offset)

    def cut_before_damage(self, now_ms: int) -> str | None:
        """End before the first missing range, as `hot.log.damage.cut_before_damage`. Raises `OSError`."""
        return cut_before_damage(self._parts, self.recovery, now_ms)

    def truncate_fully_and_start_at(
        self,
        offset: int,
        leader_epochs: Sequence[EpochEntry],
        producer_snapshot: bytes | None,
        *,
        log_start_offset: int | None = None,
    ) -> None:
        """Remove every local batch and go on at ``offset``; see `hot.log.restart`. Raises `OSError`, `Corrupt`."""
        restart(self._parts, offset, leader_epochs, producer_snapshot, log_start_offset=log_start_offset)

    def quarantine_and_restart_at(
        self,
        offset: int,
        leader_epochs: Sequence[EpochEntry],
        producer_snapshot: bytes | None,
        *,
        now_ms: int,
        reason: str,
        log_start_offset: int | None = None,
    ) -> str | None:
        """As `truncate_fully_and_start_at`, but keeps the local files; returns the directory that has them."""
        begin = offset, leader_epochs, producer_snapshot
        return quarantine_and_restart(
            self._parts, *begin, log_start_offset=log_start_offset, now_ms=now_ms, reason=reason
        )

    # -- time passing and closing -------------------------------------------------------------------------

    def tick(self, now_ms: int) -> bool:
        """Freeze an idle active segment, forget idle producers; True if it rolled. Raises `OSError`."""
        self.appender.forget_idle_producers(now_ms)
        return self.tail.roll_if_idle(now_ms)

    def close(self) -> None:
        """Write and sync everything. The next open is clean if the directory gets its mark. Raises `OSError`."""
        ticket = self.begin_close()
        if ticket is not None:
            ticket.run()
            self.finish_sync(ticket)
        self.abandon()

    def begin_close(self) -> SyncTicket | None:
        """The first half of `close`: write everything. Run the ticket, finish it, then `abandon`. Raises `OSError`."""
        return begin_close(self._parts)

    def summary(self) -> LogSummary | None:
        """The summary by which the next start opens no file, between `begin_close`'s sync and `abandon`; or None."""
        return summarise(self._parts)

    def abandon(self, *, is_removed: bool = False) -> None:
        """Let go of every file without writing; one that ``is_removed`` has none from now on, as `hot.log.close.abandon`."""
        abandon(self._parts, is_removed=is_removed)
