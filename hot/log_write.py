"""From the queue to the files, from the files to the disk: writing, rolling, syncing."""

from __future__ import annotations

from stratalog.hot.checkpoint import LEADER_EPOCHS
from stratalog.hot.filesystem import append_all
from stratalog.hot.log_append import LogAppend
from stratalog.hot.segment import Segment, segment_path
from stratalog.hot.snapshots import SNAPSHOT
from stratalog.hot.sync import Replacement, SyncTicket

__all__ = ["LogWrite"]


class LogWrite(LogAppend):
    """The half of a log that moves ``written_offset`` and ``flushed_offset``."""

    __slots__ = ()

    def write_queued(self) -> None:
        """Bring everything queued to the files: one ``writev`` a segment, indexes and snapshots of rolled ones.

        Raises `OSError`; the log then takes no appends until `Log.discard_unwritten` or a restart. Until then what was
        queued may be gone in part: nothing more is written, for it would follow a hole.
        """
        if self._failed is not None:
            raise self._failed.with_traceback(None)
        if not self._dirty:
            return
        releases, self._releases = self._releases, []
        try:
            for segment in self._dirty:
                self._write_segment(segment)
        except OSError as error:
            self._failed = error
            raise
        finally:
            for release in releases:
                release()
        self._dirty.clear()
        self.written_offset = self.log_end_offset
        active = self._segments.active
        self._segments.note_border(self.written_offset, active, active.written_bytes)

    def _write_segment(self, segment: Segment) -> None:
        if segment.written_bytes == 0:
            self._directory_dirty = True  # the file may be new
        file = segment.file
        if segment.pending:
            if segment.written_bytes == 0:
                # Kafka takes its absence for damage as soon as a recovery point lies in the segment, full or not.
                self._files.open_append(segment.path(".index")).close()
            segment.write_pending()
            self._unsynced[file] = None
        snapshot = self._seals.get(segment)
        if snapshot is not None:
            self._seal(segment, snapshot)
            del self._seals[segment]

    def _seal(self, segment: Segment, snapshot: bytes) -> None:
        """The segment is complete: write its indexes and the producers as they stood at its end."""
        if self._created:
            # The first segment's name must not be lost while the second one's is kept: the log would begin late.
            self._files.sync_directory(self.directory)
        for file in segment.store_indexes(final=True):
            self._unsynced[file] = None
        self._store_snapshot(segment.next_offset, snapshot)
        segment.freeze()
        self._directory_dirty = True

    def _store_snapshot(self, offset: int, snapshot: bytes) -> None:
        file = self._files.open_append(segment_path(self.directory, offset, SNAPSHOT))
        file.truncate(0)
        append_all(file, [snapshot])
        self._unsynced[file] = None
        self._directory_dirty = True
        if not self._snapshots or self._snapshots[-1] < offset:
            self._snapshots.append(offset)

    def _store_epochs(self) -> None:
        """Write the epochs beside their checkpoint; the sync cycle that begins puts them in its place.

        Until then recovery derives them from the batches of the active segment.
        """
        path = f"{self.directory}/{LEADER_EPOCHS}"
        # A cycle under way may still hold the name before, also one of a deleted topic of the same name.
        self._replacement_count += 1
        temporary = f"{path}.{self.topic_id.hex()}.{self._replacement_count}.tmp"
        file = self._files.open_append(temporary)
        file.truncate(0)
        append_all(file, [self.leader_epochs.to_bytes()])
        self._replacements.append(Replacement(file, temporary, path))
        self.leader_epochs.stored()
        self._directory_dirty = True

    # -- rolling ------------------------------------------------------------------------------------------

    def roll(self) -> bool:
        """Freeze the active segment if it holds anything, and open the next one. Raises `OSError`."""
        self.write_queued()
        if self._segments.active.size_bytes == 0:
            return False
        self._begin_segment(self.log_end_offset)
        self.write_queued()
        return True

    def _roll_if_idle(self, now_ms: int) -> bool:
        """Roll once ``segment.ms`` of wall-clock time have passed since the segment's first append."""
        active = self._segments.active
        limit_ms = self.config.segment_ms - self.config.segment_jitter_ms
        if active.size_bytes == 0 or now_ms - active.first_append_ms < limit_ms:
            return False
        return self.roll()

    # -- syncing ------------------------------------------------------------------------------------------

    @property
    def has_unsynced(self) -> bool:
        """Whether a sync cycle would find something to do."""
        return bool(self._unsynced) or self._directory_dirty or self._epochs_due

    @property
    def _epochs_due(self) -> bool:
        """Whether the checkpoint has to be stored with the next cycle.

        What it lacks of the active segment recovery derives from the batches, wherever the recovery point is: it begins at
        the segment's base, or where the last orderly stop left the log, which had stored them.
        """
        return self.leader_epochs.must_store(self._segments.active.base_offset)

    def begin_sync(self) -> SyncTicket | None:
        """Start a sync cycle of everything written so far; None when all of it is durable already.

        Raises `OSError` if the epochs find no room; then it may be tried again.
        """
        if self._epochs_due:
            self._store_epochs()
        if not self._unsynced and not self._directory_dirty:
            return None
        directories = [self.directory] if self._directory_dirty else []
        if self._created:
            directories.append(self.directory.rpartition("/")[0])
        ticket = SyncTicket(self._files, list(self._unsynced), self._replacements, directories, self.written_offset)
        self._tickets.append(ticket)
        self._unsynced = {}
        self._replacements = []
        self._directory_dirty = self._created = False
        return ticket

    def finish_sync(self, ticket: SyncTicket) -> None:
        """The ticket ran: ``flushed_offset`` moves. A ticket that failed moves nothing and stops the log.

        One that was overtaken counts when all before it have run: what they took is not in its files.
        """
        if not ticket.done:
            self._failed = OSError(f"a sync of {self.directory} failed; its directory must go offline")
            return
        while self._tickets and self._tickets[0].done:
            self.flushed_offset = max(self.flushed_offset, self._tickets.pop(0).end_offset)

    def _limit_tickets(self, offset: int) -> None:
        """From ``offset`` on the log will hold something else than what the cycles under way bring to the disk."""
        for ticket in self._tickets:
            ticket.end_offset = min(ticket.end_offset, offset)

    def sync(self) -> None:
        """A whole cycle on this thread. Raises `OSError`."""
        self.write_queued()
        if self.leader_epochs.must_store(self.written_offset):
            self._store_epochs()
        ticket = self.begin_sync()
        if ticket is not None:
            try:
                ticket.run()
            finally:
                self.finish_sync(ticket)
