"""The producer snapshots of a log: stored at rolls and stops, removed together with their batches."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import suppress

from stratalog.hot.log.place import LogPlace
from stratalog.hot.log.sync import StoredFile
from stratalog.hot.log.sync_cycles import SyncCycles
from stratalog.hot.recovery.replay import to_the_end
from stratalog.hot.recovery.snapshots import SNAPSHOT, restore_steps
from stratalog.hot.segments.segment import Segment, segment_path
from stratalog.hot.segments.segments import SegmentList
from stratalog.hot.state.producer_snapshot import is_whole
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.hot.storage.checkpoint import write_durably
from stratalog.hot.storage.filesystem import append_all
from stratalog.hot.storage.shortages import SHORTAGES

__all__ = ["ProducerSnapshots"]


class _Reading:
    """The producers at one offset, read step by step; void once the log was cut or begun anew, or one of ``segments`` has left."""

    __slots__ = ("generation", "offset", "segments", "state", "steps")

    def __init__(
        self,
        offset: int,
        generation: int,
        segments: list[Segment],
        steps: Generator[None, None, ProducerStateManager],
    ) -> None:
        self.offset = offset
        self.generation = generation
        self.segments = segments
        self.steps = steps
        self.state: ProducerStateManager | None = None
        """The outcome, when all steps are done."""


class ProducerSnapshots:
    """The snapshot files in the log's directory. ``offsets`` names all of them, ascending."""

    __slots__ = ("_cycles", "_place", "_reading", "_segments", "awaited", "offsets")

    def __init__(self, place: LogPlace, segments: SegmentList, cycles: SyncCycles, offsets: list[int]) -> None:
        self._place = place
        self._segments = segments
        self._cycles = cycles
        self.offsets = offsets
        self.awaited: tuple[int, bytes] | None = None
        """The snapshot of a log that has begun anew, by its offset, until there is room for it."""
        self._reading: _Reading | None = None

    def store(self, offset: int, snapshot: bytes) -> None:
        """Write the producers as they stood at ``offset``; durable with the next sync cycle. Raises `OSError`."""
        file = self._place.files.open_append(self._path(offset))
        file.truncate(0)
        append_all(file, [snapshot])
        self._cycles.note_file(file)
        self._cycles.note_names()
        if not self.offsets or self.offsets[-1] < offset:
            self.offsets.append(offset)
        self._reading = None  # the cut for which they were read did not come

    def sync(self, offset: int) -> None:
        """Make the file of ``offset`` durable now, if there is one and no cycle is known to have done so. Raises `OSError`."""
        if self._cycles.flushed_offset > offset:  # by a cycle that began after the roll there
            return
        StoredFile(self._place.files, self._path(offset)).fdatasync()

    def store_ahead(self, offset: int, snapshot: bytes) -> bool:
        """Write, durably, the producers of a log that is about to begin anew; False where there is no room yet.

        A crash behind the removal of its segments would leave a log that knows no producer, and nothing would say so.
        One that is above the end of its log goes at the next start. Raises `OSError`.
        """
        try:
            write_durably(self._place.files, self._path(offset), snapshot)
        except OSError as error:
            if error.errno in SHORTAGES:
                return False
            raise
        return True

    def store_awaited(self) -> None:
        """Write the snapshot that a log which began anew lacks, if there is one. Raises `OSError`: then call it again."""
        if self.awaited is not None:
            self.store(*self.awaited)
            self.awaited = None

    def begin_anew(self, offset: int | None) -> None:
        """Remove all but the one that was stored ahead; None if there is none. Raises `OSError`."""
        self.awaited = None
        while self.offsets:
            if self.offsets[-1] != offset:
                self._place.files.unlink(self._path(self.offsets[-1]))
                self._cycles.note_names()
            self.offsets.pop()
        if offset is not None:
            self.offsets.append(offset)

    def bytes_at(self, offset: int, end_state: ProducerStateManager | None) -> bytes:
        """The snapshot file of the producers as they stood at ``offset``, where the log ends if there is an ``end_state``.

        One that a roll has left is taken as it is: to open it and pack it again takes half a second for 100,000 producers.
        Raises `OSError`.
        """
        if offset in self.offsets:
            with suppress(FileNotFoundError):
                stored = self._place.files.read_bytes(self._path(offset))
                if is_whole(stored):
                    return stored
        return (self.state_at(offset) if end_state is None else end_state).to_bytes()

    def read_ahead(self, offset: int) -> bool:
        """Do a step of what `state_at` would do for this offset; True when `take_read` has it. Raises `OSError`, `Corrupt`.

        A segment of small batches takes seconds, and the event loop has others to serve meanwhile.
        """
        reading = self._begun(offset)
        if reading is None:
            segments = self._below(offset)
            reading = _Reading(offset, self._cycles.generation, segments, self._steps_to(offset, segments))
            self._reading = reading
        if reading.state is None:
            try:
                next(reading.steps)
            except StopIteration as end:
                reading.state = end.value
            except BaseException:
                self._reading = None
                raise
        return reading.state is not None

    def take_read(self, offset: int) -> ProducerStateManager | None:
        """The producers that `read_ahead` has read for ``offset``, once; None unless that is done, and holds."""
        reading, self._reading = self._begun(offset), None
        return None if reading is None else reading.state

    def state_at(self, offset: int) -> ProducerStateManager:
        """The producers as they stood at ``offset``, a batch border. Raises `OSError`."""
        return to_the_end(self._steps_to(offset, self._below(offset)))

    def _begun(self, offset: int) -> _Reading | None:
        """The work that was begun for this offset, if it still holds."""
        reading = self._reading
        if reading is None or reading.offset != offset or reading.generation != self._cycles.generation:
            return None
        return reading if reading.segments == self._below(offset) else None

    def _below(self, offset: int) -> list[Segment]:
        return self._segments[: self._segments.floor(offset) + 1]

    def _steps_to(self, offset: int, segments: list[Segment]) -> Generator[None, None, ProducerStateManager]:
        return restore_steps(
            self._place.files,
            self._place.directory,
            list(self.offsets),
            segments,
            start_offset=min(segments[0].base_offset, offset),
            end_offset=offset,
            name=str(self._place.topic_partition),
        )

    def keep(self, first: int, last: int | None = None) -> None:
        """Remove the snapshots that are not in ``[first, last]``. Raises `OSError`."""
        kept = []
        for offset in self.offsets:
            if offset < first or (last is not None and offset > last):
                self._place.files.unlink(self._path(offset))
                self._cycles.note_names()
            else:
                kept.append(offset)
        self.offsets[:] = kept

    def forget_before(self, first: int) -> None:
        """The files below this offset lie elsewhere."""
        self.offsets[:] = [offset for offset in self.offsets if offset >= first]

    def remove(self, offsets: Iterable[int]) -> None:
        """Remove these files if they exist; the removal need not be durable. Raises `OSError`."""
        for offset in offsets:
            if offset in self.offsets:
                self._place.files.unlink(self._path(offset))
                self.offsets.remove(offset)

    def _path(self, offset: int) -> str:
        return segment_path(self._place.directory, offset, SNAPSHOT)
