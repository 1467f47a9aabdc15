"""The end of a log: batches that have a place and wait to be written, and the segments they go to.

`LogTail.queue` takes a batch in memory, `LogTail.write` brings everything queued to the files with one ``writev`` a
segment. A segment that another one follows is sealed when it is written: its indexes are stored, and the producers as
they stood at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager

from stratalog.hot.log.place import LogPlace
from stratalog.hot.log.snapshots import ProducerSnapshots
from stratalog.hot.log.sync import StoredFile
from stratalog.hot.log.sync_cycles import SyncCycles
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segments import SegmentList
from stratalog.hot.state.producer_state import ProducerStateManager

__all__ = ["LogTail"]


class LogTail:
    """The batches between ``written_offset``, where the files end, and ``end_offset``, where the log does.

    Without ``failed`` the files end exactly at ``written_offset``. With it they may hold part of what was queued, so
    nothing is written any more.
    """

    __slots__ = (
        "_cycles",
        "_dirty",
        "_place",
        "_producers",
        "_releases",
        "_seals",
        "_segments",
        "_snapshots",
        "end_offset",
        "failed",
        "failed_for_good",
        "written_offset",
    )

    def __init__(
        self,
        place: LogPlace,
        segments: SegmentList,
        producers: ProducerStateManager,
        snapshots: ProducerSnapshots,
        cycles: SyncCycles,
        end_offset: int,
    ) -> None:
        self._place = place
        self._segments = segments
        self._producers = producers
        self._snapshots = snapshots
        self._cycles = cycles
        self.end_offset = self.written_offset = end_offset
        self.failed: OSError | None = None
        """The reason why the log takes no appends: a failed write, sync or cut, or a closed log."""
        self.failed_for_good = False
        """Whether only the next start puts the files in order."""
        self._dirty: list[Segment] = []
        self._seals: dict[Segment, bytes] = {}
        self._releases: list[Callable[[], None]] = []
        producers.keep()

    # -- queueing -----------------------------------------------------------------------------------------

    @property
    def queued_bytes(self) -> int:
        """Bytes that the next `write` will write."""
        total = 0
        for segment in self._dirty:  # as a rule one, for which a generator would cost more than the sum
            total += segment.size_bytes - segment.written_bytes
        return total

    def queue(
        self, segment: Segment, batch: memoryview | bytearray, last_offset: int, max_timestamp_ms: int, now_ms: int
    ) -> None:
        """Queue a batch at the end of ``segment``, the active one; keeps its buffer until it is written."""
        segment.queue(batch, last_offset, max_timestamp_ms, now_ms)
        dirty = self._dirty
        if not dirty or dirty[-1] is not segment:
            dirty.append(segment)
        self.end_offset = last_offset + 1

    def release_when_written(self, release: Callable[[], None]) -> None:
        """Call ``release`` once the next `write` is done with the buffers, or they are discarded."""
        self._releases.append(release)

    def begin_segment(self, base_offset: int) -> Segment:
        """Make a new active segment in memory; the next write seals the old one, as it stands now."""
        old = self._segments.active
        self._seals[old] = self._producers.to_bytes()
        self.add(old)
        segment = self._place.new_segment(base_offset)
        self._segments.append(segment)
        self.add(segment)
        return segment

    def add(self, segment: Segment) -> None:
        """Let the next write handle ``segment``, although no batch is queued for it."""
        if not self._dirty or self._dirty[-1] is not segment:
            self._dirty.append(segment)

    # -- writing ------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Bring everything queued to the files: one ``writev`` a segment, indexes and snapshots of rolled ones.

        Raises `OSError`; the log then takes no appends until the queue is discarded, or a restart. Until then what was
        queued may be gone in part: nothing more is written, for it would follow a hole.
        """
        if self.failed is not None:
            raise self.failed.with_traceback(None)
        if not self._dirty:
            return
        releases = self._releases
        if releases:
            self._releases = []
        try:
            for segment in self._dirty:
                self._write_segment(segment)
        except OSError as error:
            self.failed = error
            raise
        finally:
            for release in releases:
                release()
        self._dirty.clear()
        self.written_offset = self.end_offset
        self._producers.keep()
        active = self._segments.active
        self._segments.note_border(self.written_offset, active, active.written_bytes)

    def _write_segment(self, segment: Segment) -> None:
        if segment.written_bytes == 0:
            self._cycles.note_names()  # the file may be new
        file = segment.file
        if segment.pending:
            if segment.written_bytes == 0:
                # Kafka takes its absence for damage as soon as a recovery point lies in the segment, full or not.
                self._place.files.open_append(segment.path(".index")).close()
            segment.write_pending()
            self._cycles.note_file(file)
            if segment.known_aborted:
                self._store_aborted(segment)
        if self._seals and (snapshot := self._seals.get(segment)) is not None:
            self._seal(segment, snapshot)
            del self._seals[segment]

    def _store_aborted(self, segment: Segment) -> None:
        """Write the aborted transactions with their markers: a start that trusts a recovery point behind both reads neither again."""
        if segment.stored_aborted < 1:
            self._cycles.note_names()  # the file is new, or replaced
        if segment.store_aborted():  # a file for each marker until the next sync would be as many descriptors
            self._cycles.note_file(StoredFile(self._place.files, segment.path(".txnindex")))

    def _seal(self, segment: Segment, snapshot: bytes) -> None:
        """Write the indexes of a complete segment, and the producers as of its end."""
        self._cycles.sync_new_log()
        for file in segment.store_indexes(final=True):
            self._cycles.note_file(file)
        self._snapshots.store(segment.next_offset, snapshot)
        segment.freeze()
        self._cycles.note_names()

    def roll(self) -> bool:
        """Freeze the active segment if it holds anything, and open the next one. Raises `OSError`."""
        self.write()
        if self._segments.active.size_bytes == 0:
            return False
        self.begin_segment(self.end_offset)
        self.write()
        return True

    def roll_if_idle(self, now_ms: int) -> bool:
        """Roll once ``segment.ms`` of wall-clock time have passed since the segment's first append."""
        active, config = self._segments.active, self._place.config
        limit_ms = config.segment_ms - config.segment_jitter_ms
        if active.size_bytes == 0 or now_ms - active.first_append_ms < limit_ms:
            return False
        return self.roll()

    def sync_segments(self) -> None:
        """Make all batches durable now: a segment is to begin above the log end. Raises `OSError`."""
        self.write()
        self._cycles.sync_segments()

    # -- taking back --------------------------------------------------------------------------------------

    @contextmanager
    def stops_if_it_fails(self, *, for_good: bool = False) -> Iterator[None]:
        """An `OSError` in here leaves files that are half cut: the log takes no appends until they are in order."""
        try:
            yield
        except OSError as error:
            self.failed = error
            self.failed_for_good = self.failed_for_good or for_good
            raise

    @property
    def unsealed(self) -> Container[Segment]:
        """The segments that a failed write has left half sealed."""
        return () if self.failed is None else self._seals

    def discard_queued(self) -> None:
        """Drop every queued batch; the caller cuts the log at ``written_offset``."""
        releases, self._releases = self._releases, []
        for release in releases:
            release()
        for segment in self._segments:
            segment.pending.clear()

    def unseal(self, segment: Segment) -> None:
        """Forget that ``segment`` must be sealed: it leaves the log, or is the active one again."""
        self._seals.pop(segment, None)

    def cut(self, end_offset: int) -> None:
        """Take ``end_offset`` as the end of the log and its files; only seals are left to be written."""
        self._dirty = [segment for segment in self._segments if segment in self._seals]
        self.end_offset = self.written_offset = end_offset

    def restart(self, active: Segment, offset: int) -> None:
        """Take a log that consists of one empty segment."""
        self._seals.clear()
        self._dirty = [active]
        self.end_offset = self.written_offset = offset
