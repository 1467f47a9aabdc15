"""One cleaning of one log, on the files: the map over the dirty section, then one new segment per group of old ones.

Runs in a worker, step by step as the log's owner asks: a group's new files, named ``.cleaned``, are complete and
durable before the owner hears of them, and mean nothing until it gives them their names (`hot.cleaner.swap`). So the
disk needs room for one more segment, not for one more log. Source: Kafka's ``Cleaner``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.hot.cleaner.filter import BatchFilter, FilterCounts, FilterRules, add_keys
from stratalog.hot.cleaner.offset_map import OffsetMap
from stratalog.hot.cleaner.plan import CleanableSegment, grouped
from stratalog.hot.cleaner.records import bare_batch
from stratalog.hot.cleaner.transactions import CleanedTransactions
from stratalog.hot.recovery.interrupted import drop_undecided_swaps
from stratalog.hot.segments.scan import CheckedBatch, Damage, scan_checked
from stratalog.hot.segments.segment import CLEANED, SUFFIXES, segment_path
from stratalog.hot.segments.segment_indexes import SegmentIndexes
from stratalog.hot.segments.transaction_index import AbortedTxn, aborted_to_bytes
from stratalog.hot.state.producer_snapshot import snapshot_from_bytes
from stratalog.hot.storage.filesystem import File, Filesystem, append_all
from stratalog.wire.batch import NO_TIMESTAMP, BatchHeader, read_header
from stratalog.wire.errors import Corrupt

__all__ = ["CleanJob", "CleanedSegment", "Cleaning", "MapBuilt", "drop_leftovers"]

_WRITE_BYTES: Final = 1 << 20
_PACE_BYTES: Final = 1 << 20

Pace = Callable[[int], None]
"""Told how many bytes were read or written; it waits where a limit asks for it."""


class CleanJob(Struct, frozen=True, kw_only=True):
    """The input of a cleaning. ``segments`` are all frozen ones below ``end_offset``, oldest first."""

    directory: str
    generation: int
    """Grows when the log is cut: then the result is of another log."""
    segments: tuple[CleanableSegment, ...]
    first_dirty_offset: int
    end_offset: int
    aborted: tuple[AbortedTxn, ...]
    """The aborted transactions that touch the segments, wherever their markers stand."""
    producers: bytes
    """The snapshot of the producers as they stand now."""
    now_ms: int
    delete_retention_ms: int
    forgettable_below: int
    epoch_starts: tuple[int, ...] = ()
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    map_load_factor: float


class MapBuilt(NamedTuple):
    """The first half is done."""

    end_offset: int
    """Up to here the log is clean when every group has been cleaned; less than asked for if the map overflowed."""
    key_count: int
    groups: tuple[tuple[int, ...], ...]
    """The base offsets of the segments that become one, group by group."""


class CleanedSegment(NamedTuple):
    """A group's new segment lies beside the old ones, durable, under names that end with ``.cleaned``."""

    generation: int
    """As in its job."""
    base_offset: int
    end_offset: int
    replaces: tuple[tuple[int, int], ...]
    """(base offset, size in bytes) of the old segments."""
    size_bytes: int
    suffixes: tuple[str, ...]
    """Which of a segment's files there are."""
    changed: bool
    """False: it would be the old one over again, so there are no new files."""
    counts: FilterCounts


class Cleaning:
    """A cleaning under way. Raises `Corrupt` for a log that cannot be read as it stands, and `OSError`."""

    def __init__(self, job: CleanJob, files: Filesystem, pace: Pace) -> None:
        self._job = job
        self._files = files
        self._pace = pace
        self._map = OffsetMap(job.map_bytes, job.map_load_factor, job.first_dirty_offset, job.end_offset)
        self._groups: list[list[CleanableSegment]] = []
        starts = frozenset(job.epoch_starts)
        rules = FilterRules(job.now_ms, job.delete_retention_ms, job.end_offset, job.forgettable_below, starts)
        self._transactions = CleanedTransactions(job.aborted)
        self._filter = BatchFilter(self._map, self._transactions, snapshot_from_bytes(job.producers), rules)

    # -- the map ------------------------------------------------------------------------------------------

    def build_map(self) -> MapBuilt:
        """Learn the newest offset of each key in the dirty section, as far as the map reaches."""
        job = self._job
        sizes = drop_leftovers(self._files, job.directory)
        self._fill_map()
        self._map.close()
        end_offset = min(self._map.latest_offset + 1, job.end_offset)
        below = [_with_index_sizes(one, sizes) for one in job.segments if one.base_offset < end_offset]
        self._groups = grouped(below, segment_bytes=job.segment_bytes, index_bytes=job.segment_index_bytes)
        bases = tuple(tuple(one.base_offset for one in group) for group in self._groups)
        return MapBuilt(end_offset, self._map.count, bases)

    def _fill_map(self) -> None:
        """Void batches are left out: they supersede nothing."""
        start = self._job.first_dirty_offset
        segments = [segment for segment in self._job.segments if segment.end_offset > start]
        begin = segments[0].base_offset if segments else start
        # One that ended before the walk begins would never end in it, and void all that its producer has written since.
        transactions = CleanedTransactions(one for one in self._job.aborted if one.last_offset >= begin)
        offset_map = self._map
        for segment in segments:
            for header, data in self._batches(segment):
                if header.is_control:
                    transactions.is_needless(header, data)
                elif transactions.is_void(header) or header.last_offset < start:
                    pass
                elif not add_keys(header, data, offset_map, start):
                    return
                offset_map.latest_offset = max(offset_map.latest_offset, header.last_offset)
            offset_map.latest_offset = max(offset_map.latest_offset, segment.end_offset - 1)

    # -- the groups ---------------------------------------------------------------------------------------

    def clean_group(self, number: int) -> CleanedSegment:
        """Write the segment that takes the place of group ``number``; groups are cleaned in their order.

        It is never empty: of a group from which everything goes the last batch stays as a header, or as a marker. So names and
        batches agree on how far it reaches, and it can be archived.
        """
        group = self._groups[number]
        counts = self._filter.counts = FilterCounts()
        output = _Output(self._files, self._job, group[0].base_offset, self._pace)
        try:
            self._write_group(group, output)
            aborted = self._transactions.take_index()
            changed = len(group) > 1 or counts.kept_whole < counts.batches
            suffixes = output.finish(aborted) if changed else output.discard()
        except BaseException:
            output.discard()
            raise
        replaces = tuple((one.base_offset, one.size_bytes) for one in group)
        base, end = group[0].base_offset, group[-1].end_offset
        return CleanedSegment(self._job.generation, base, end, replaces, output.size_bytes, suffixes, changed, counts)

    def _write_group(self, group: list[CleanableSegment], output: _Output) -> None:
        counts = self._filter.counts
        last: tuple[BatchHeader, memoryview, int] | None = None
        for segment in group:
            for header, data in self._batches(segment):
                last = header, data, counts.forgotten_below
                survivor = self._filter.survivor(header, data)
                if survivor is data:
                    output.add(header, data)
                elif survivor is not None:
                    output.add(read_header(survivor), survivor)
        if last is not None and not output.size_bytes:
            header, data, forgotten_below = last
            left = bare_batch(header, data)
            output.add(read_header(left), left)
            if header.is_control:  # a marker stays as it is
                counts.forgotten_below = forgotten_below

    def _batches(self, segment: CleanableSegment) -> Iterator[tuple[BatchHeader, memoryview]]:
        path = segment_path(self._job.directory, segment.base_offset, ".log")
        file = self._files.open_read(path)
        try:
            if file.size_bytes() != segment.size_bytes:
                raise Corrupt(f"{path} has {file.size_bytes()} bytes, its log says {segment.size_bytes}")
            paced = 0
            for found in scan_checked(file, 0, segment.size_bytes, segment.base_offset):
                if isinstance(found, Damage):
                    raise Corrupt(f"{path}, position {found.position}: {found.reason}")
                yield self._placed(found, segment, path)
                paced += found.header.size_bytes
                if paced >= _PACE_BYTES:
                    self._pace(paced)
                    paced = 0
            self._pace(paced)
        finally:
            file.close()

    @staticmethod
    def _placed(found: CheckedBatch, segment: CleanableSegment, path: str) -> tuple[BatchHeader, memoryview]:
        if found.header.next_offset > segment.end_offset:
            raise Corrupt(
                f"{path}, position {found.position}: offset {found.header.last_offset} lies beyond the segment's end "
                f"{segment.end_offset}"
            )
        return found.header, found.data


def drop_leftovers(files: Filesystem, directory: str) -> dict[str, int]:
    """Remove the files of a cleaning that was given up; the sizes of all others by name. Raises `OSError`."""
    sizes = {entry.name: entry.size_bytes for entry in files.scan(directory)}
    drop_undecided_swaps(files, directory, sizes.keys())
    for name in sizes:
        if name.endswith(CLEANED):
            files.unlink(f"{directory}/{name}")
    return sizes


def _with_index_sizes(segment: CleanableSegment, sizes: dict[str, int]) -> CleanableSegment:
    name = f"{segment.base_offset:020d}"
    return segment._replace(
        offset_index_bytes=sizes.get(f"{name}.index", 0), time_index_bytes=sizes.get(f"{name}.timeindex", 0)
    )


class _Output:
    """The files of a new segment while they are being written."""

    def __init__(self, files: Filesystem, job: CleanJob, base_offset: int, pace: Pace) -> None:
        self.size_bytes = 0
        self._files = files
        self._directory = job.directory
        self._base_offset = base_offset
        self._pace = pace
        self._log = self._open(".log")
        self._pending: list[bytes | bytearray | memoryview] = []
        self._pending_bytes = 0
        self._indexes = SegmentIndexes.empty(base_offset, job.index_interval_bytes)

    def _path(self, suffix: str) -> str:
        return segment_path(self._directory, self._base_offset, suffix) + CLEANED

    def _open(self, suffix: str) -> File:
        file = self._files.open_append(self._path(suffix))
        file.truncate(0)
        return file

    def add(self, header: BatchHeader, batch: bytearray | memoryview) -> None:
        """Append a batch. One without records gets no time entry: a search by time could not use it."""
        timestamp_ms = header.max_timestamp if header.record_count else NO_TIMESTAMP
        self._indexes.add_batch(self.size_bytes, header.size_bytes, header.last_offset, timestamp_ms)
        self._pending.append(batch)
        self._pending_bytes += len(batch)
        self.size_bytes += len(batch)
        if self._pending_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        append_all(self._log, self._pending)
        self._pace(self._pending_bytes)
        self._pending, self._pending_bytes = [], 0

    def finish(self, aborted: list[AbortedTxn]) -> tuple[str, ...]:
        """Write the rest and the indexes; durable on return, names included. The suffixes of the files."""
        if self._pending:
            self._write()
        self._log.fdatasync()
        self._log.close()
        self._indexes.close()
        contents = {".index": self._indexes.offsets.to_bytes(), ".timeindex": self._indexes.times.to_bytes()}
        if aborted or self._replaces_aborted():
            contents[".txnindex"] = aborted_to_bytes(aborted)
        for suffix, content in contents.items():
            file = self._open(suffix)
            append_all(file, [content])
            file.fdatasync()
            file.close()
        self._files.sync_directory(self._directory)  # the swap tells its steps apart by the names that exist
        return tuple(suffix for suffix in SUFFIXES if suffix == ".log" or suffix in contents)

    def _replaces_aborted(self) -> bool:
        """Whether the old segment of this name has a ``.txnindex``: an empty one takes its place.

        So a start that completes the swap knows that one which waits for no other is not the old one.
        """
        try:
            self._files.status(segment_path(self._directory, self._base_offset, ".txnindex"))
        except FileNotFoundError:
            return False
        return True

    def discard(self) -> tuple[str, ...]:
        """The files are not wanted."""
        self._log.close()
        self._files.unlink(self._path(".log"))
        return ()
