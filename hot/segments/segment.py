"""One segment: a ``.log`` file, its indexes, and what is queued for it.

The active segment is appended to and keeps its indexes in memory. A frozen one opens nothing until it is read.
A `SegmentCache`, which all logs of a broker share, bounds the files and indexes that are held open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol
from weakref import ref

from stratalog.hot.config import LogConfig
from stratalog.hot.segments.index import OffsetIndex, TimeEntry, TimeIndex
from stratalog.hot.segments.log_summary import ActiveSummary
from stratalog.hot.segments.scan import open_whole, scan_borders, scan_within, unreadable
from stratalog.hot.segments.segment_indexes import SegmentIndexes, TailIndexes, check_ranges, last_time_entry
from stratalog.hot.segments.transaction_index import VOID, AbortedTxn, aborted_from_bytes, store_aborted
from stratalog.hot.storage.filesystem import File, Filesystem, append_all
from stratalog.wire.batch import HEADER_BYTES, BatchHeader, read_header
from stratalog.wire.errors import Corrupt

__all__ = ["CLEANED", "DELETED", "SUFFIXES", "SWAP", "Segment", "SegmentInfo", "segment_path"]

RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
"""Behind the name of a file that the cleaner writes: void until it is renamed."""
SWAP: Final = ".swap"
"""Behind the name of a file that is complete and takes the place of others (`hot.cleaner.swap`)."""
SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".missing")
"""The files of a segment; the first one makes it a segment."""

_BufferList = list[bytes | bytearray | memoryview]


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """Where a segment's file lies: 20 digits of its base offset and the suffix."""
    return f"{directory}/{base_offset:020d}{suffix}"


class SegmentInfo(NamedTuple):
    """A segment as retention, tiering and people see it. ``end_offset`` is exclusive."""

    base_offset: int
    end_offset: int
    size_bytes: int
    path: str
    first_append_ms: int
    max_timestamp_ms: int
    active: bool


class UsedSegments(Protocol):
    """Learns which segments are used; see `SegmentCache`."""

    @property
    def latest(self) -> Segment | None:
        """The one that was used last."""
        ...

    def touch(self, segment: Segment, /) -> None:
        """``segment`` was just used."""
        ...


class Segment:
    """One segment of a log. ``next_offset`` and ``size_bytes`` count what is queued; ``written_bytes`` does not."""

    __slots__ = (
        "_cache",
        "_file",
        "_indexes",
        "_lent",
        "_max_timestamp",
        "base_offset",
        "config",
        "directory",
        "files",
        "first_append_ms",
        "frozen",
        "known_aborted",
        "missing",
        "name_suffix",
        "next_offset",
        "pending",
        "roll_timestamp_ms",
        "size_bytes",
        "stored",
        "stored_aborted",
        "written_bytes",
    )

    def __init__(
        self,
        files: Filesystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        cache: UsedSegments,
        *,
        size_bytes: int = 0,
        next_offset: int | None = None,
        frozen: bool = False,
        first_append_ms: int = -1,
    ) -> None:
        self.files = files
        self.directory = directory
        self._cache = cache
        self._file: File | None = None
        self._lent: ref[File] | None = None
        self._indexes: SegmentIndexes | None = None
        self._max_timestamp: TimeEntry | None = None
        self.stored: ActiveSummary | None = None
        """Summary of an active segment's files, if it is known without reading them and no batch was added since."""
        self.known_aborted: list[AbortedTxn] | None = None
        """`aborted`, once a caller has asked for it; the file has ``stored_aborted`` of them, or `VOID`."""
        self.stored_aborted = 0
        self.missing: str | None = None
        """Why none of its offsets are on this disk (`hot.recovery.missing`); None where they are."""
        self.config = config
        self.base_offset = base_offset
        self.next_offset = base_offset if next_offset is None else next_offset
        self.size_bytes = size_bytes
        self.written_bytes = size_bytes
        self.frozen = frozen
        self.name_suffix = ""
        """Behind the names of its files, while the cleaner's swap gives them their own."""
        self.first_append_ms = first_append_ms
        """Wall clock of the first append, -1 while empty; after a restart the file's last change."""
        self.roll_timestamp_ms = -1
        """The first batch's largest timestamp, against which Kafka measures ``segment.ms``; -1 while empty."""
        self.pending: _BufferList = []

    # -- files and indexes --------------------------------------------------------------------------------

    def path(self, suffix: str = ".log") -> str:
        """Where a file of this segment lies."""
        return segment_path(self.directory, self.base_offset, suffix) + self.name_suffix

    @property
    def file(self) -> File:
        """The ``.log`` file, opened on first use. Raises `OSError`."""
        if self._file is None:
            # A segment that waits for a sync holds its file: opening it again would cost one more descriptor each time.
            lent = None if self._lent is None else self._lent()
            self._file = self._open() if lent is None else lent
        if self.frozen or self._cache.latest is not self:
            self._cache.touch(self)
        return self._file

    def _open(self) -> File:
        if self.frozen:
            return open_whole(self.files, self.path(), self.written_bytes)
        return self.files.open_append(self.path())

    @property
    def indexes(self) -> SegmentIndexes:
        """Both indexes; loaded, checked and if need be rebuilt on first use. Raises `OSError`."""
        indexes = self._indexes
        if indexes is None or type(indexes) is TailIndexes:
            if indexes is None:
                indexes = self._to_append()
            if type(indexes) is TailIndexes:
                indexes = self._join(indexes)
            self._indexes = indexes
        if self.frozen:
            self._cache.touch(self)
        return indexes

    @indexes.setter
    def indexes(self, indexes: SegmentIndexes) -> None:
        self._indexes = indexes
        self.stored = None

    def _to_append(self) -> SegmentIndexes:
        """Indexes to add batches to: the earlier entries stay in the files if what must be known of them is."""
        stored, self.stored = self.stored, None
        if self.size_bytes == 0:
            self._indexes = SegmentIndexes.empty(self.base_offset, self.config.index_interval_bytes)
        elif stored is None:
            self._indexes = self._load_indexes()
        else:
            interval_bytes = self.config.index_interval_bytes
            self._indexes = TailIndexes(self.base_offset, interval_bytes, stored.indexes, self.size_bytes)
        return self._indexes

    def _join(self, tail: TailIndexes) -> SegmentIndexes:
        """All entries, those before the tail from the files or, if they are not what they were, from the log."""
        try:
            offset_data = self.files.read_bytes(self.path(".index"))
            earlier = tail.known_from_bytes(offset_data, self.files.read_bytes(self.path(".timeindex")))
        except (Corrupt, FileNotFoundError):
            earlier = self._derive_indexes(tail.begin_position)
        return tail.joined_to(earlier)

    @property
    def has_indexes(self) -> bool:
        """Whether the indexes are in memory."""
        return self._indexes is not None

    @property
    def held_bytes(self) -> int:
        """Memory of the indexes that `release` would free."""
        return self._indexes.size_bytes if self.frozen and self._indexes is not None else 0

    def release(self) -> None:
        """Let go of the file and, when frozen, the indexes; they come back on the next use.

        Slices in flight and sync cycles keep the file open for themselves.
        """
        self._file = self._lent = None
        if self.frozen:
            self.forget_indexes()

    def lend(self) -> None:
        """As `release`, but the next use takes the same file back if another holder kept it open until then."""
        lent = None if self._file is None else ref(self._file)
        self.release()
        self._lent = lent

    def forget_indexes(self) -> None:
        """Drop the indexes from memory; they are read from their files on the next use."""
        if self._indexes is not None:
            self._max_timestamp = self._indexes.max_timestamp
        self._indexes = None

    def _load_indexes(self) -> SegmentIndexes:
        try:
            offsets = OffsetIndex.from_bytes(self.base_offset, self.files.read_bytes(self.path(".index")))
            times = TimeIndex.from_bytes(self.base_offset, self.files.read_bytes(self.path(".timeindex")))
            filled = self.size_bytes if self.frozen else 0
            check_ranges(offsets, times, self.next_offset - self.base_offset, self.size_bytes, filled, self.path(""))
        except (Corrupt, FileNotFoundError):
            return self.rebuild_indexes()
        indexes = SegmentIndexes(offsets, times, self.config.index_interval_bytes, self.size_bytes)
        if not self.frozen:
            self.add_tail_timestamps(indexes)
        return indexes

    def headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """`scan_within` of this segment's borders, from ``position`` to what is written. Raises `OSError`."""
        return scan_within(self.file, position, self.written_bytes, self.base_offset, self.next_offset)

    def add_tail_timestamps(self, indexes: SegmentIndexes, after: int = 0) -> None:
        """Bring ``indexes.max_timestamp`` up to date with the batches behind the last time entry, and ``after``. Raises `OSError`."""
        start = max(indexes.offsets.lookup(indexes.max_timestamp.offset), after)
        for _, header in self.headers(start):
            if header.max_timestamp > indexes.max_timestamp.timestamp_ms:
                indexes.max_timestamp = TimeEntry(header.max_timestamp, header.last_offset)

    def rebuild_indexes(self) -> SegmentIndexes:
        """Derive both indexes from the log and write them out. Raises `OSError`."""
        self._indexes = indexes = self._derive_indexes(self.written_bytes)
        if self.frozen:
            self.store_indexes(final=True)
        return indexes

    def _derive_indexes(self, end: int) -> SegmentIndexes:
        headers = scan_within(self.file, 0, end, self.base_offset, self.next_offset, step_bytes=1 << 18)
        return SegmentIndexes.derived(self.base_offset, self.config.index_interval_bytes, headers)

    def store_indexes(self, *, final: bool) -> list[File]:
        """Write the index entries that the files lack; ``final`` adds the closing time entry. Not yet durable.

        Returns the open files, to be synced. Raises `OSError`.
        """
        indexes = self.indexes
        if final:
            indexes.close()
        stored = []
        for index, suffix in ((indexes.offsets, ".index"), (indexes.times, ".timeindex")):
            file = self.files.open_append(self.path(suffix))
            if index.stored_count == 0:
                file.truncate(0)
            first, index.stored_count = index.stored_count, 0  # void, should the write fail
            if len(index) > first:
                append_all(file, [index.to_bytes(first)])
            index.stored_count = len(index)
            stored.append(file)
        return stored + self.store_aborted()

    def store_aborted(self) -> list[File]:
        """The same for aborted transactions."""
        if self.known_aborted is None or len(self.known_aborted) == self.stored_aborted:
            return []
        first, self.stored_aborted = self.stored_aborted, VOID  # should the write fail
        stored = store_aborted(self.files, self.path(".txnindex"), self.known_aborted, first)
        self.stored_aborted = len(self.known_aborted)
        return stored

    def hold_indexes(self) -> None:
        """Load what the files beside the ``.log`` have of an active segment, which may do without them. Raises `OSError`, `Corrupt`."""
        self.replace_aborted(self.aborted)
        self._indexes = self.indexes
        self._indexes.offsets.stored_count = self._indexes.times.stored_count = 0

    # -- aborted transactions -----------------------------------------------------------------------------

    @property
    def aborted(self) -> list[AbortedTxn]:
        """The aborted transactions whose markers stand here. Raises `Corrupt`, `OSError`."""
        if self.known_aborted is None:
            try:
                found = aborted_from_bytes(self.files.read_bytes(self.path(".txnindex")))
            except FileNotFoundError:
                found = []
            self.take_stored_aborted(found)
            return found
        return self.known_aborted

    def take_stored_aborted(self, transactions: list[AbortedTxn]) -> None:
        """These are all that the file has; there is no file if it is none."""
        self.known_aborted, self.stored_aborted = transactions, len(transactions)

    def replace_aborted(self, transactions: Iterable[AbortedTxn]) -> None:
        """Take these instead of what the file says; the next `store_indexes` rewrites it."""
        self.known_aborted = list(transactions)
        self.stored_aborted = VOID

    # -- appending ----------------------------------------------------------------------------------------

    def must_roll(self, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int) -> bool:
        """Kafka's four conditions for a batch that would be appended now."""
        start, position, config = self.roll_timestamp_ms, self.size_bytes, self.config
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if not position:  # whatever its size: a second segment that begins at the same offset would have the same files
            return False
        waited = max_timestamp_ms - start if start >= 0 else now_ms - self.first_append_ms
        if position > config.segment_bytes - size_bytes or waited > config.segment_ms - config.segment_jitter_ms:
            return True
        indexes = self._indexes
        if indexes is None:
            indexes = self._to_append()
        return indexes.wanted_bytes > config.segment_index_bytes

    def queue(
        self, buffer: bytes | bytearray | memoryview, last_offset: int, max_timestamp_ms: int, now_ms: int
    ) -> None:
        """Take a batch that will be written by the next `write_pending`."""
        size_bytes = len(buffer)
        position = self.size_bytes
        if position == 0:
            self.roll_timestamp_ms = max_timestamp_ms
            self.first_append_ms = now_ms
        indexes = self._indexes
        if indexes is None:
            indexes = self._to_append()
        indexes.add_batch(position, size_bytes, last_offset, max_timestamp_ms)
        self.size_bytes = position + size_bytes
        self.next_offset = last_offset + 1
        self.pending.append(buffer)

    def write_pending(self) -> None:
        """Write what is queued. Raises `OSError`; then part of it may be in the file, and none counts as written."""
        buffers, self.pending = self.pending, []
        file = self._file
        if file is None:
            file = self.file
        self.written_bytes += append_all(file, buffers)

    def freeze(self) -> None:
        """Appends are over: the cache may now let go of file and indexes."""
        self.frozen = True
        self._cache.touch(self)

    # -- looking up ---------------------------------------------------------------------------------------

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The first batch with a record at or above ``offset``, among what is written; None if there is none.

        Raises `OSError`, and `Corrupt` for a header on the way that cannot be one of this segment.
        """
        return self._locate(offset, *self.indexes.offsets.floor(offset))

    def _locate(self, offset: int, indexed_offset: int, after: int) -> tuple[int, BatchHeader] | None:
        file, end = self.file, self.written_bytes
        misled = 0 < after < end
        due = self.base_offset
        for position, size_bytes, base_offset, last_offset in scan_borders(file, after, end):
            misled = misled and last_offset != indexed_offset
            if misled:
                break
            if base_offset < due or last_offset >= self.next_offset:
                raise unreadable(self.path(), position)
            if last_offset >= offset:
                return position, read_header(file.pread(HEADER_BYTES, position))
            after, due = position + size_bytes, last_offset + 1
        if misled:  # the index has no checksum: it did not lead to the batch of its entry
            if not self.pending:
                self.rebuild_indexes()
            return self._locate(offset, self.base_offset, 0)
        if after < end:
            raise unreadable(self.path(), after)
        return None

    @property
    def max_timestamp(self) -> TimeEntry:
        """The largest record timestamp and the last offset of its batch; -1 for an empty segment. Raises `OSError`."""
        if self._indexes is not None:
            return self._indexes.max_timestamp
        if not self.size_bytes:  # retention asks every log: thousands that are empty need no indexes for it
            return TimeEntry(-1, self.base_offset)
        if self.stored is not None:
            return self.stored.indexes.max_timestamp
        if self._max_timestamp is None:
            self._max_timestamp = self._read_max_timestamp() if self.frozen else self.indexes.max_timestamp
        return self._max_timestamp

    def _read_max_timestamp(self) -> TimeEntry:
        """The last entry of a frozen segment's time index, without loading the rest."""
        last = last_time_entry(self.files, self.path(".timeindex"), self.base_offset)
        return self.indexes.max_timestamp if last is None else last

    def info(self, *, active: bool) -> SegmentInfo:
        """The segment as others see it."""
        times = self.first_append_ms, self.max_timestamp.timestamp_ms
        return SegmentInfo(self.base_offset, self.next_offset, self.size_bytes, self.path(), *times, active)
