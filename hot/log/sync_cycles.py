"""Keeps the durability of a log: its dirty files and names, the running sync cycles, and the flushed offset.

A cycle takes everything that is dirty when it begins; later writes wait for the next one. Cycles may
overtake each other. ``flushed_offset`` moves when a cycle and all before it have run.
"""

from __future__ import annotations

from stratalog.hot.log.place import LogPlace
from stratalog.hot.log.sync import InPlace, Replacement, StoredFile, Syncable, SyncTicket
from stratalog.hot.recovery.opening import LoadedLog
from stratalog.hot.segments.segments import SegmentList
from stratalog.hot.state.leader_epochs import LeaderEpochCache
from stratalog.hot.storage.checkpoint import LEADER_EPOCHS, TRUNCATION, write_truncation
from stratalog.hot.storage.filesystem import append_all
from stratalog.hot.storage.shortages import NO_DESCRIPTOR

__all__ = ["SyncCycles"]


class SyncCycles:
    """Every batch below ``flushed_offset`` is on the disk, under a durable name, with the epochs of its segment."""

    __slots__ = (
        "_created",
        "_cut",
        "_epochs",
        "_epochs_count",
        "_epochs_in_place",
        "_names_dirty",
        "_place",
        "_replacements",
        "_segments",
        "_tickets",
        "_unsynced",
        "flushed_offset",
        "generation",
        "truncated_to",
    )

    def __init__(self, place: LogPlace, segments: SegmentList, epochs: LeaderEpochCache, loaded: LoadedLog) -> None:
        self._place = place
        self._segments = segments
        self._epochs = epochs
        self._epochs_count = 0
        self._epochs_in_place = InPlace()
        self.flushed_offset = loaded.flushed_offset
        self._unsynced: dict[Syncable, None] = dict.fromkeys(loaded.created)
        self._unsynced |= {StoredFile(place.files, path): None for path in loaded.unsynced}
        self._replacements: list[Replacement] = []
        self._tickets: list[SyncTicket] = []
        self._created = bool(loaded.created)
        self._names_dirty = self._created or loaded.names_changed
        self.truncated_to = loaded.truncated_to
        """Where the log was cut since the checkpoints were written: they show nothing from there on. None if it was not."""
        self._cut = 0
        self.generation = 0
        """Grows with each cut: the files hold other batches than before."""

    # -- dirt ---------------------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """True if a sync cycle would have work."""
        due = self._epochs.must_store(self._segments.active.base_offset)
        return bool(self._unsynced) or self._names_dirty or due

    def note_file(self, file: Syncable) -> None:
        """Note that ``file`` has bytes that are not durable."""
        self._unsynced[file] = None

    def note_names(self) -> None:
        """Note that a name in the log's directory was added, changed or removed, not durably."""
        self._names_dirty = True

    def store_epochs(self, below: int) -> None:
        """Write the epochs beside their checkpoint if it lacks some of batches ``below`` this offset. Raises `OSError`.

        The sync cycle that begins next puts them in its place.
        """
        if not self._epochs.must_store(below):
            return
        place = self._place
        path = place.path(LEADER_EPOCHS)
        # A cycle under way may still hold the name before, also one of a deleted topic of the same name.
        self._epochs_count += 1
        temporary = f"{path}.{place.topic_id.hex()}.{self._epochs_count}.tmp"
        file = place.files.open_append(temporary)
        file.truncate(0)
        append_all(file, [self._epochs.to_bytes()])
        self._replacements.append(Replacement(file, temporary, path, self._epochs_count, self._epochs_in_place))
        self._epochs.stored()
        self._names_dirty = True

    # -- names that must be durable at once ---------------------------------------------------------------

    @property
    def names_durable(self) -> bool:
        """True if all names in the directory are durable."""
        return not self._names_dirty and not any(ticket.names_pending for ticket in self._tickets)

    def sync_names(self) -> None:
        """Make all names durable now: some may be removed only after the others are durable. Raises `OSError`."""
        if not self.names_durable:
            self._place.files.sync_directory(self._place.directory)

    def sync_new_log(self) -> None:
        """Make the first segment's name durable before a second one's: the log may not begin late. Raises `OSError`."""
        if self._created:
            self._place.files.sync_directory(self._place.directory)

    def sync_segments(self) -> None:
        """Make all that is written durable now, in the files and under their names. Raises `OSError`."""
        for segment in self._segments:
            if segment.next_offset > self.flushed_offset:
                segment.file.fdatasync()
        self.sync_names()

    # -- cycles -------------------------------------------------------------------------------------------

    def begin(self, written_offset: int) -> SyncTicket | None:
        """Start a cycle of everything below ``written_offset``; None if all of it is durable already.

        The epochs that the checkpoint lacks of the active segment may wait: recovery derives them from its batches,
        wherever the recovery point is. It begins at the segment's base, or where the last orderly stop left the log,
        which had stored them. Raises `OSError` if the epochs find no room; then it may be tried again.
        """
        self.store_epochs(self._segments.active.base_offset)
        if not self._unsynced and not self._names_dirty:
            return None
        place = self._place
        directories = [place.directory] if self._names_dirty else []
        if self._created:
            directories.append(place.directory.rpartition("/")[0])
        ticket = SyncTicket(place.files, list(self._unsynced), self._replacements, directories, written_offset)
        self._tickets.append(ticket)
        self._unsynced = {}
        self._replacements = []
        self._names_dirty = self._created = False
        return ticket

    def finish(self) -> None:
        """End the cycle of a ticket that ran; moves ``flushed_offset``.

        A ticket that has overtaken others counts once they have run, for it has not synced their files.
        """
        while self._tickets and self._tickets[0].done:
            self.flushed_offset = max(self.flushed_offset, self._tickets.pop(0).end_offset)

    def run(self, ticket: SyncTicket) -> None:
        """Run a ticket on this thread. Raises `OSError`: where no descriptor was free, the next cycle does the rest.

        Any other is raised without its number: room may come, but the pages that a sync has refused are gone.
        """
        try:
            ticket.run()
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise OSError(f"a sync of {self._place.directory} failed: {error}") from error
            self._tickets.remove(ticket)
            files, replacements, directories = ticket.hand_on()
            self._unsynced = dict.fromkeys(files) | self._unsynced
            self._replacements = [*replacements, *self._replacements]
            self._names_dirty = self._names_dirty or bool(directories)
            self._created = self._created or any(one != self._place.directory for one in directories)
            raise

    @property
    def is_idle(self) -> bool:
        """Whether no cycle runs."""
        return not self._tickets

    def relocated(self, written_offset: int) -> None:
        """The log lies in another directory, where all that is written is durable, and so is its recovery point."""
        self._unsynced.clear()
        self._replacements.clear()
        self._names_dirty = self._created = False
        self.truncated_to = None
        self.flushed_offset = written_offset

    # -- a log that gets shorter --------------------------------------------------------------------------

    def cut(self, end_offset: int) -> None:
        """Lower the running cycles to ``end_offset``: above it the log will hold other batches than they sync."""
        self.generation += 1
        self.flushed_offset = min(self.flushed_offset, end_offset)
        for ticket in self._tickets:
            ticket.end_offset = min(ticket.end_offset, end_offset)

    def restart(self, offset: int) -> None:
        """Drop the running cycles: the log was begun anew at ``offset``."""
        self.cut(0)
        self.flushed_offset = offset

    def void_recovery_point(self, end_offset: int) -> None:
        """Store that recovery points above ``end_offset`` are void: after a crash they would look like lost data."""
        self._cut += 1
        if end_offset < self.flushed_offset and (self.truncated_to is None or end_offset < self.truncated_to):
            write_truncation(self._place.files, self._place.directory, end_offset)
            self.truncated_to = end_offset

    @property
    def noted_cut(self) -> int | None:
        """The number of the last cut, if there is a note of one."""
        return None if self.truncated_to is None else self._cut

    def checkpoints_stored(self, noted_cut: int) -> None:
        """Remove the note of cuts up to ``noted_cut``; a later cut keeps it. Raises `OSError`.

        Recovery point and high watermark are on the disk as they were behind that cut.
        """
        if self.truncated_to is not None and noted_cut == self._cut:
            self._place.files.unlink(self._place.path(TRUNCATION))
            self._place.files.sync_directory(self._place.directory)
            self.truncated_to = None
