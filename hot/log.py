"""One partition's local log: append, read, roll, sync, delete, truncate.

The owner drives it from one thread: `append_as_leader` assigns offsets and queues, `write_queued` brings what is
queued to the files with one ``writev`` a segment, `begin_sync` / `SyncTicket.run` / `finish_sync` make it
durable. Offsets obey ``log_start_offset <= local_log_start_offset <= flushed_offset <= written_offset <=
log_end_offset``. After an `OSError` the log refuses appends until `discard_unwritten` or a restart.
"""

from __future__ import annotations

from stratalog.hot.batch_search import BatchSearch, TimestampOffset
from stratalog.hot.config import LogConfig
from stratalog.hot.filesystem import Filesystem
from stratalog.hot.loaded import LEADER_EPOCH_MAX, OpenRequest
from stratalog.hot.log_append import AppendInfo
from stratalog.hot.log_compact import LogCompact
from stratalog.hot.log_read import LocalRead, read_slices
from stratalog.hot.log_summary import LogSummary
from stratalog.hot.log_time import ScanOn, max_timestamp_search, timestamp_search
from stratalog.hot.producer_state import AppendOrigin
from stratalog.hot.recovery import load_log
from stratalog.hot.segment import segment_path
from stratalog.hot.segment_cache import SegmentCache
from stratalog.hot.snapshots import SNAPSHOT, stray_snapshots
from stratalog.hot.summarised import take_summary
from stratalog.hot.sync import SyncTicket
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["AppendInfo", "AppendOrigin", "Log"]

_EXPIRY_CHECK_MS = 600_000


class Log(LogCompact):
    """The log of one partition on one disk. See the module for who calls what."""

    __slots__ = ()

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
        leader_epoch_max: int = LEADER_EPOCH_MAX,
        refuse_damage: bool = False,
    ) -> Log:
        """Open the log in ``directory``, creating it if there is none, and recover what the last stop left.

        ``clean`` says that the directory's mark of a clean shutdown was found; otherwise everything from
        ``recovery_point`` on is verified, and must be synced before it is served: ``flushed_offset`` is no higher
        than the recovery point until the first sync cycle. ``may_have_gaps``: the cleaner was here once. ``summary``: what
        the last orderly stop noted of the log, if anything. The last three are as in `OpenRequest`. Damage ends in
        quarantine and `recovery`, not in an error. Raises `OSError`, and `Corrupt` with ``refuse_damage``.
        """
        cache = SegmentCache() if cache is None else cache
        request = OpenRequest(
            directory, topic_partition, topic_id, config, files, cache, now_ms, clean, recovery_point, log_start_offset,
            may_have_gaps, summary, known_gaps_below, leader_epoch_max, refuse_damage,
        )  # fmt: skip
        log = cls(directory, topic_partition, topic_id, config, files, cache, load_log(request))
        log.compacted_before = may_have_gaps
        return log

    # -- reading ------------------------------------------------------------------------------------------

    def read(self, offset: int, *, max_bytes: int, max_offset: int, min_one_batch: bool = True) -> LocalRead:
        """File slices from the batch that holds ``offset``, ending on a batch border.

        At most ``max_bytes``, but with ``min_one_batch`` one batch at least; nothing at or above ``max_offset``
        (exclusive, a batch border such as the high watermark) nor beyond ``written_offset``. Raises `KafkaError`
        OFFSET_OUT_OF_RANGE outside ``[local_log_start_offset, log_end_offset]``, and `OSError`.
        """
        first = self._segments[0].base_offset
        if offset < first or not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic_partition} is outside of "
                f"[{self.local_log_start_offset}, {self.log_end_offset}]",
            )
        end_offset = min(max_offset, self.written_offset)
        return read_slices(
            self._segments, offset, max_bytes=max_bytes, end_offset=end_offset, min_one_batch=min_one_batch
        )

    def read_range(self, base_offset: int, end_offset: int) -> LocalRead:
        """Exactly the batches of ``[base_offset, end_offset)``, both batch borders, for the archive.

        The log start may lie inside: objects begin on batch borders. Raises `KafkaError` OFFSET_OUT_OF_RANGE for
        what is no longer here, and `OSError`.
        """
        if not self.first_base_offset <= base_offset < end_offset <= self.written_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offsets [{base_offset}, {end_offset}) of {self.topic_partition} are not all on this disk, which "
                f"holds [{self.first_base_offset}, {self.written_offset})",
            )
        size_bytes = self.size_bytes
        return read_slices(self._segments, base_offset, max_bytes=size_bytes, end_offset=end_offset, min_one_batch=True)

    def timestamp_search(self, timestamp_ms: int, from_offset: int, *, max_offset: int) -> BatchSearch | ScanOn | None:
        """The first local batch that may hold a record at or after ``timestamp_ms`` in ``[from_offset, max_offset)``.

        None: there is none. Otherwise what is not in that batch is looked for again from its ``next_offset`` on.
        Raises `OSError`, `Corrupt`.
        """
        start_offset = max(from_offset, self.local_log_start_offset)
        return timestamp_search(self._segments, timestamp_ms, start_offset, min(max_offset, self.written_offset))

    def offset_for_timestamp(self, timestamp_ms: int, *, max_offset: int) -> TimestampOffset | None:
        """The first local record at or after ``timestamp_ms`` below ``max_offset``. Raises `OSError`, `Corrupt`.

        For callers that may wait: batches of any size are opened here.
        """
        from_offset = self.local_log_start_offset
        while (step := self.timestamp_search(timestamp_ms, from_offset, max_offset=max_offset)) is not None:
            found = step.find() if isinstance(step, BatchSearch) else None
            if found is not None:
                return found
            from_offset = step.next_offset
        return None

    def max_timestamp(self) -> TimestampOffset | None:
        """What `max_timestamp_search` leads to, for callers that may wait. Raises `OSError`, `Corrupt`."""
        step = self.max_timestamp_search()
        return step.find() if isinstance(step, BatchSearch) else step

    def max_timestamp_search(self) -> BatchSearch | TimestampOffset | None:
        """The local record with the largest timestamp, the first of several, or its batch, which holds it.

        Raises `OSError`, `Corrupt`.
        """
        return max_timestamp_search(self._segments)

    def producer_snapshot_at(self, offset: int) -> bytes:
        """The snapshot file of the producers as they stood at ``offset``, a batch border. Raises `OSError`."""
        if offset == self.log_end_offset:
            return self.producer_state.to_bytes()
        return self._state_at(offset).to_bytes()

    # -- time passing and closing -------------------------------------------------------------------------

    def tick(self, now_ms: int) -> bool:
        """Freeze an idle active segment, forget idle producers; True if it rolled. Raises `OSError`."""
        if not 0 < self._next_expiry_ms - now_ms <= _EXPIRY_CHECK_MS:  # a clock that was set back delays nothing
            # As in Kafka, not at once: a retry of old events after a restart must still find its first attempt.
            if self._next_expiry_ms:
                self.producer_state.remove_expired(now_ms, self.config.producer_id_expiration_ms)
            self._next_expiry_ms = now_ms + _EXPIRY_CHECK_MS
        return self._roll_if_idle(now_ms)

    def close(self) -> None:
        """Write and sync everything, indexes and a producer snapshot included, so that the next open is clean.

        The directory's mark of a clean shutdown is the caller's. Raises `OSError`.
        """
        ticket = self.begin_close()
        if ticket is not None:
            ticket.run()
            self.finish_sync(ticket)
        self.abandon()

    def begin_close(self) -> SyncTicket | None:
        """The first half of `close`: write everything; what remains is to run the ticket, finish it and `abandon`.

        So a directory can sync its logs side by side. Raises `OSError`.
        """
        self.write_queued()
        if self._half_doomed:
            self._sync_names()
            self._doom_indexes()
            self._directory_dirty = True
        if self.leader_epochs.must_store(self.log_end_offset):
            self._store_epochs()
        active = self._segments.active
        if active.has_indexes or self.log_end_offset not in self._snapshots:
            for file in active.store_indexes(final=True):
                self._unsynced[file] = None
            if self.log_end_offset not in self._snapshots:
                self._store_snapshot(self.log_end_offset, self.producer_state.to_bytes())
            self._directory_dirty = True
        return self.begin_sync()

    def summary(self) -> LogSummary | None:
        """What the next start may go by instead of opening the log; between `begin_close`'s sync and `abandon`.

        None if a start has to look at the directory. Snapshots that serve nothing any more go. Raises `OSError`.
        """
        if self.flushed_offset != self.log_end_offset or self.has_unsynced or self._failed is not None:
            return None
        bases = [segment.base_offset for segment in self._segments]
        for offset in stray_snapshots(self._snapshots, bases, self.log_end_offset):
            self._files.unlink(segment_path(self.directory, offset, SNAPSHOT))
            self._snapshots.remove(offset)
        return take_summary(
            self._files,
            self.directory,
            self.topic_id,
            self._segments,
            self.leader_epochs,
            len(self.producer_state.entries),
            self.log_end_offset,
        )

    def abandon(self) -> None:
        """Let go of every file without writing: the disk failed, or the log is about to be removed."""
        for segment in self._segments:
            self._cache.drop(segment)
        self._failed = OSError(f"the log of {self.topic_partition} is closed")
