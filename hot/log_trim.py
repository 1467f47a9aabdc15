"""Making a log shorter: deletion at its start, truncation at its end, starting over elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from stratalog.hot.checkpoint import LEADER_EPOCHS, TRUNCATION, write_truncation
from stratalog.hot.leader_epochs import EpochEntry
from stratalog.hot.log_read import aborted_transactions
from stratalog.hot.log_write import LogWrite
from stratalog.hot.producer_snapshot import ProducerEntry
from stratalog.hot.producer_state import ProducerStateManager
from stratalog.hot.quarantine import Quarantine
from stratalog.hot.removal import FileRemoval
from stratalog.hot.replay import replay_segment
from stratalog.hot.segment import DELETED, SUFFIXES, Segment, segment_path
from stratalog.hot.segment_indexes import SegmentIndexes
from stratalog.hot.snapshots import SNAPSHOT, restore_state
from stratalog.hot.transaction_index import AbortedTxn
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError

__all__ = ["LogTrim"]


class LogTrim(LogWrite):
    """The half of a log that takes things away. Names change first, content goes later."""

    __slots__ = ()

    # -- the start ----------------------------------------------------------------------------------------

    def delete_local_before(self, offset: int) -> int:
        """Remove the frozen segments that lie wholly below ``offset``; returns how many.

        The local log start moves first. The files are renamed ``.deleted`` oldest first, each name durable
        before the next: of several renames a crash may keep any, and a newer one alone would leave a hole.
        `take_removal` gives them out after ``file.delete.delay.ms``. Without an archive the log start moves too.
        Raises `OSError`; what it interrupted is completed first by the next call.
        """
        segments = self._segments
        unfinished = {} if self._failed is None else self._seals
        count = 0
        while count < len(segments) - 1 and segments[count].next_offset <= offset and segments[count] not in unfinished:
            count += 1
        if count == 0 and not self._leaving:
            return 0
        if self._failed is None:  # a log that finds no room may still make some
            self.write_queued()
        self._leaving += self._segments.remove_first(count)
        if not self.config.remote_storage_enable:
            self.advance_log_start(self._segments[0].base_offset)
        self._doom_leaving()
        self._remove_snapshots(below=self._segments[0].base_offset)
        return count

    def _doom_leaving(self) -> None:
        """Take the segments that have left the log from the disk, oldest first."""
        while self._leaving:
            self._sync_names()
            self._doom_indexes()
            self._doom_log(self._leaving[0])
            del self._leaving[0]
            self._directory_dirty = True  # the last name may wait for the next cycle, or for the next one to go

    def advance_log_start(self, offset: int) -> bool:
        """Nobody reads below ``offset`` any more (DeleteRecords, retention); returns whether that is news.

        Raises `KafkaError` OFFSET_OUT_OF_RANGE above the log end; the caller checks the high watermark.
        """
        if offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"the log start of {self.topic_partition} cannot move to {offset}, the log ends at {self.log_end_offset}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        self.producer_state.on_log_start(offset)
        return True

    def _sync_names(self) -> None:
        """Segments may go only when the names of those that stay are durable."""
        if not self._names_durable:
            self._files.sync_directory(self.directory)

    def _doom(self, segment: Segment) -> None:
        """Rename a segment's files for deletion; readers keep what they have open. It may be tried again.

        The new names are not yet durable.
        """
        self._cache.drop(segment)
        paths = [segment.path(suffix) for suffix in SUFFIXES]
        for path in paths:
            with suppress(FileNotFoundError):  # not every segment has all of them
                self._files.rename(path, path + DELETED)
        self._doomed.append(([path + DELETED for path in paths], None))

    def _doom_log(self, segment: Segment) -> None:
        """Rename a segment's ``.log`` for deletion, not yet durably; its indexes follow when that is durable.

        If the new name is lost in a crash, the segment is there again, and must not lack what cannot be derived from
        it alone: which of its transactions were aborted.
        """
        self._cache.drop(segment)
        path, *indexes = [segment.path(suffix) for suffix in SUFFIXES]
        with suppress(FileNotFoundError):  # it is tried again
            self._files.rename(path, path + DELETED)
        self._doomed.append(([path + DELETED], None))
        self._half_doomed += indexes

    def _doom_indexes(self) -> None:
        """Rename the indexes of segments whose ``.log`` has durably left."""
        while self._half_doomed:
            path = self._half_doomed[0]
            with suppress(FileNotFoundError):  # not every segment has all of them
                self._files.rename(path, path + DELETED)
            del self._half_doomed[0]
            self._doomed.append(([path + DELETED], None))

    @property
    def _names_durable(self) -> bool:
        return not self._directory_dirty and not any(ticket.names_pending for ticket in self._tickets)

    def _doom_durably(self, segment: Segment) -> None:
        self._doom(segment)
        self._files.sync_directory(self.directory)

    def _remove_snapshots(self, *, below: int = 0, above: int | None = None) -> None:
        kept = []
        for offset in self._snapshots:
            if offset < below or (above is not None and offset > above):
                self._files.unlink(segment_path(self.directory, offset, SNAPSHOT))
                self._directory_dirty = True
            else:
                kept.append(offset)
        self._snapshots[:] = kept

    def take_removal(self, now_ms: int) -> FileRemoval | None:
        """Hand over the files that were renamed long enough ago, to be removed by the caller, in any thread.

        ``file.delete.delay.ms`` counts from the first call that sees a file, by any clock that does not go back. None if
        nothing is due.
        """
        if self._half_doomed and self._names_durable:
            self._doom_indexes()
        if not self._doomed:
            return None
        waiting: list[tuple[list[str], int | None]] = []
        due: list[str] = []
        for paths, due_ms in self._doomed:
            if due_ms is None:
                waiting.append((paths, now_ms + self.config.file_delete_delay_ms))
            elif now_ms < due_ms:
                waiting.append((paths, due_ms))
            else:
                due += paths
        self._doomed = waiting
        return FileRemoval(self._files, due) if due else None

    # -- the end ------------------------------------------------------------------------------------------

    def _void_recovery_point(self, offset: int) -> None:
        """A recovery point above the log end would read as lost data after a crash: say first that it is void."""
        if offset < self.flushed_offset and (self._truncated_to is None or offset < self._truncated_to):
            write_truncation(self._files, self.directory, offset)
            self._truncated_to = offset

    def recovery_point_stored(self) -> None:
        """The directory's checkpoint now holds this log's ``flushed_offset``. Raises `OSError`."""
        if self._truncated_to is not None:
            self._files.unlink(f"{self.directory}/{TRUNCATION}")
            self._files.sync_directory(self.directory)
            self._truncated_to = None

    def discard_unwritten(self) -> None:
        """After a failed write (a full disk): forget what was queued and return to ``written_offset``.

        Raises `OSError` if the files cannot be put in order yet; then it may be tried again.
        """
        releases, self._releases = self._releases, []
        for release in releases:
            release()
        for segment in self._segments:
            segment.pending.clear()
        forgotten = self.producer_state.entries
        self._cut(self.written_offset)
        self._await_first_batches(forgotten)
        self._failed = None
        self.write_queued()

    def _await_first_batches(self, forgotten: dict[int, ProducerEntry]) -> None:
        """A producer whose very first batch was refused has to send that one again before any other.

        Of a producer that nothing is known of any sequence is taken: its next batch, already on its way, would be,
        and the first one then be out of order for ever.
        """
        entries = self.producer_state.entries
        for producer_id, entry in forgotten.items():
            first = next(iter(entry.batches), None)
            if producer_id not in entries and (first is None or first.first_sequence == 0):
                entries[producer_id] = ProducerEntry(
                    producer_id, producer_epoch=entry.producer_epoch, last_timestamp_ms=entry.last_timestamp_ms
                )

    def _cut(self, offset: int) -> None:
        """The log ends with the batch before ``offset``; whatever lies behind goes, newest first."""
        number = self._segments.floor(offset)
        for segment in reversed(self._segments.remove_from(number + 1)):
            self._seals.pop(segment, None)
            self._doom_durably(segment)
        segment = self._segments.active
        self._seals.pop(segment, None)
        self._cut_segment(segment, offset)
        end_offset = segment.next_offset
        self._dirty = [other for other in self._segments if other in self._seals]
        self.log_end_offset = self.written_offset = end_offset
        self.flushed_offset = min(self.flushed_offset, end_offset)
        self.gaps_below = min(self.gaps_below, end_offset)
        self._limit_tickets(end_offset)
        self.leader_epochs.truncate_from_end(end_offset)
        self._remove_snapshots(above=end_offset)
        self.producer_state = self._state_at(end_offset)
        self._directory_dirty = True

    def _cut_segment(self, segment: Segment, offset: int) -> None:
        located = segment.locate(offset) if segment.written_bytes else None
        position = segment.written_bytes if located is None else located[0]
        end_offset = min(segment.next_offset if located is None else located[1].base_offset, offset)
        indexes, aborted = segment.indexes, segment.aborted
        self._cache.drop(segment)
        segment.frozen = False
        segment.file.truncate(position)
        segment.file.fdatasync()  # what is appended next must not mix with what was cut
        offsets, times = indexes.offsets, indexes.times
        offsets.truncate(position)
        times.truncate(end_offset)
        offsets.stored_count = times.stored_count = 0
        segment.size_bytes = segment.written_bytes = position
        segment.next_offset = max(end_offset, segment.base_offset)
        segment.replace_aborted(entry for entry in aborted if entry.last_offset < end_offset)
        segment.indexes = SegmentIndexes(offsets, times, self.config.index_interval_bytes, position)
        segment.add_tail_timestamps(segment.indexes)
        if position == 0:
            segment.first_append_ms = segment.roll_timestamp_ms = -1

    def _state_at(self, offset: int) -> ProducerStateManager:
        return restore_state(
            self._files,
            self.directory,
            self._snapshots,
            self._segments,
            start_offset=min(self._segments[0].base_offset, offset),
            end_offset=offset,
            name=str(self.topic_partition),
        )

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that touch ``[from_offset, to_offset)``. Raises `OSError`.

        A transaction index that cannot be read is derived from the log again.
        """
        active = self._segments.active
        if from_offset >= active.base_offset and active.known_aborted == []:
            return []  # what each read at the tail of a log finds
        try:
            return aborted_transactions(self._segments, from_offset, to_offset)
        except Corrupt:
            self._rebuild_aborted()
            return aborted_transactions(self._segments, from_offset, to_offset)

    def _rebuild_aborted(self) -> None:
        """Derive the unreadable transaction indexes from the log, and write them out."""
        for segment in self._segments:
            try:
                segment.aborted  # noqa: B018 - reading it is the check
            except Corrupt:
                state = self._state_at(segment.base_offset)
                segment.replace_aborted(replay_segment(state, segment, segment.next_offset))
                for file in segment.store_indexes(final=segment.frozen):
                    self._unsynced[file] = None

    # -- starting over ------------------------------------------------------------------------------------

    def truncate_fully_and_start_at(
        self,
        offset: int,
        leader_epochs: Sequence[EpochEntry],
        producer_snapshot: bytes | None,
        *,
        log_start_offset: int | None = None,
    ) -> None:
        """Remove every local batch and go on at ``offset`` with the given history of epochs and producers.

        The log start becomes ``log_start_offset`` (an archive's), by default ``offset``. Raises `OSError`, and
        `Corrupt` for a snapshot that is not one, before anything is removed.
        """
        self._restart(offset, leader_epochs, producer_snapshot, log_start_offset, None)

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
        """As `truncate_fully_and_start_at`, but the local files are kept aside; returns the directory they are in."""
        quarantine = Quarantine(self._files, self.directory, now_ms)
        self._restart(offset, leader_epochs, producer_snapshot, log_start_offset, (quarantine, reason))
        return quarantine.directory

    def _restart(
        self,
        offset: int,
        leader_epochs: Sequence[EpochEntry],
        producer_snapshot: bytes | None,
        log_start_offset: int | None,
        keep: tuple[Quarantine, str] | None,
    ) -> None:
        state = ProducerStateManager(str(self.topic_partition))
        if producer_snapshot is not None:
            state.load_bytes(producer_snapshot, offset)
        self.write_queued()
        self._doom_leaving()
        self._void_recovery_point(offset)
        active = Segment(self._files, self.directory, offset, self.config, self._cache)
        self._replace_segments(active, keep)
        if keep is not None:
            names = [f"{snapshot:020d}{SNAPSHOT}" for snapshot in self._snapshots]
            keep[0].move([*names, LEADER_EPOCHS], keep[1])
            self._snapshots.clear()
        self._remove_snapshots(below=offset + 1, above=offset)
        self.producer_state = state
        state.end_offset = offset
        self.leader_epochs.clear()
        for entry in leader_epochs:
            self.leader_epochs.assign(*entry)
        self.leader_epochs.dirty = True
        self._dirty = [active]
        self._seals.clear()
        self.log_end_offset = self.written_offset = self.flushed_offset = offset
        self.gaps_below = 0
        self._limit_tickets(0)
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        if producer_snapshot is not None:
            self._store_snapshot(offset, producer_snapshot)
        self.write_queued()
        self._sync_names()

    def _replace_segments(self, active: Segment, keep: tuple[Quarantine, str] | None) -> None:
        """Put an empty segment in the place of all others; at no moment is there none (unless they are kept aside).

        Old ones go newest first: a crash in between leaves a log that ends at the first gap.
        """
        removed = self._segments.remove_from(0)
        active.replace_aborted(())
        if keep is None and all(segment.base_offset != active.base_offset for segment in removed):
            active.file.truncate(0)
            self._files.sync_directory(self.directory)
        for segment in reversed(removed):
            if keep is not None:
                self._cache.drop(segment)
                keep[0].move([segment.path(suffix).rpartition("/")[2] for suffix in SUFFIXES], keep[1])
            elif segment.base_offset == active.base_offset:
                self._cache.drop(segment)
                active.file.truncate(0)
                active.file.fdatasync()
            else:
                self._doom_durably(segment)
        self._segments.append(active)
