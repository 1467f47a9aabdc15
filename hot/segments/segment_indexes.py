"""The two indexes of a segment together, and the rule by which they grow with each batch."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from crc32c import crc32c

from stratalog.hot.segments.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeEntry, TimeIndex
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.wire.batch import BatchHeader
from stratalog.wire.errors import Corrupt

__all__ = ["IndexTail", "SegmentIndexes", "TailIndexes", "check_ranges", "last_time_entry"]

_time_entry = partial(tuple.__new__, TimeEntry)
"""A `TimeEntry` from a tuple, at half the cost: batches come with one each as long as time goes on."""


class IndexTail(NamedTuple):
    """The part of stored indexes that appending needs: how many entries there are, and the last ones."""

    offset_count: int
    offset_crc: int
    """CRC-32C of the entries, as the file holds them."""
    last_position: int
    """That of the last offset entry, 0 without one."""
    time_count: int
    time_crc: int
    max_timestamp_ms: int
    max_timestamp_offset: int

    @property
    def max_timestamp(self) -> TimeEntry:
        """The largest timestamp of the batches that the entries cover, and of those behind them."""
        return TimeEntry(self.max_timestamp_ms, self.max_timestamp_offset)


def check_ranges(
    offsets: OffsetIndex, times: TimeIndex, offset_count: int, size_bytes: int, filled_bytes: int, path: str
) -> None:
    """Whether indexes can be of a segment of ``offset_count`` offsets and ``size_bytes``; else raises `Corrupt`.

    ``filled_bytes`` is its size if the time index has its closing entry, else 0; ``path`` lacks the suffix.
    """
    if len(offsets) and (offsets.positions[-1] >= size_bytes or offsets.relative_offsets[-1] >= offset_count):
        raise Corrupt(f"{path}.index points beyond its log; rebuild it")
    if len(times) and times.relative_offsets[-1] >= offset_count:
        raise Corrupt(f"{path}.timeindex points beyond its log; rebuild it")
    if filled_bytes > 0 and not len(times) and len(offsets):
        raise Corrupt(f"{path}.timeindex is empty beside a filled offset index; rebuild it")


def last_time_entry(files: Filesystem, path: str, base_offset: int) -> TimeEntry | None:
    """The last entry of a ``.timeindex`` file; None if it is absent or not whole entries. Raises `OSError`."""
    try:
        file = files.open_read(path)
    except FileNotFoundError:
        return None
    size_bytes = file.size_bytes()
    data = file.pread(TIME_ENTRY_BYTES, max(0, size_bytes - TIME_ENTRY_BYTES))
    if size_bytes % TIME_ENTRY_BYTES or len(data) != TIME_ENTRY_BYTES:
        return None
    return TimeIndex.from_bytes(base_offset, data).last()


class SegmentIndexes:
    """Both indexes of a segment, and the rule by which they grow."""

    __slots__ = ("interval_bytes", "max_timestamp", "offsets", "since_entry_bytes", "times", "wanted_bytes")

    def __init__(self, offsets: OffsetIndex, times: TimeIndex, interval_bytes: int, end_position: int) -> None:
        self.offsets = offsets
        self.times = times
        self.interval_bytes = interval_bytes
        self.max_timestamp = times.last()
        self.since_entry_bytes = end_position - (offsets.positions[-1] if offsets.positions else 0)
        """Bytes since the batch of the last offset entry."""
        self.wanted_bytes = 0
        """Bytes of the larger file with one more entry; the time index also has the entry that closes it."""
        self.count_entries()

    @classmethod
    def empty(cls, base_offset: int, interval_bytes: int) -> SegmentIndexes:
        """The indexes of a segment without batches."""
        return cls(OffsetIndex(base_offset), TimeIndex(base_offset), interval_bytes, 0)

    @classmethod
    def derived(
        cls, base_offset: int, interval_bytes: int, headers: Iterable[tuple[int, BatchHeader]]
    ) -> SegmentIndexes:
        """The indexes of a segment with these batches, ``(position, header)`` each."""
        indexes = cls.empty(base_offset, interval_bytes)
        last_offset = -1
        for position, header in headers:
            if header.last_offset > last_offset:  # an entry that does not ascend would mislead every look-up
                last_offset = header.last_offset
                indexes.add_batch(position, header.size_bytes, last_offset, header.max_timestamp)
        return indexes

    def add_batch(self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Note the batch that begins at ``position``."""
        if max_timestamp_ms > self.max_timestamp[0]:
            self.max_timestamp = _time_entry((max_timestamp_ms, last_offset))
        if self.since_entry_bytes > self.interval_bytes:
            self.offsets.append(last_offset, position)
            self.times.maybe_append(*self.max_timestamp)
            self.since_entry_bytes = 0
            self.count_entries()
        self.since_entry_bytes += size_bytes

    def close(self) -> None:
        """The segment is complete: its largest timestamp gets the last time entry."""
        self.times.maybe_append(*self.max_timestamp)
        self.count_entries()

    def count_entries(self) -> None:
        """Bring ``wanted_bytes`` up to date."""
        offset_bytes = (len(self.offsets.positions) + 1) * OFFSET_ENTRY_BYTES
        time_bytes = (len(self.times.timestamps) + 2) * TIME_ENTRY_BYTES
        self.wanted_bytes = max(time_bytes, offset_bytes)

    @property
    def size_bytes(self) -> int:
        """Memory of the columns."""
        return self.offsets.size_bytes + self.times.size_bytes

    def tail(self) -> IndexTail | None:
        """The part of these indexes that `TailIndexes` need; None while entries are not stored."""
        positions = self.offsets.positions
        if self.offsets.stored_count != len(positions) or self.times.stored_count != len(self.times.timestamps):
            return None
        return IndexTail(
            len(positions),
            crc32c(self.offsets.to_bytes()),
            positions[-1] if positions else 0,
            len(self.times.timestamps),
            crc32c(self.times.to_bytes()),
            *self.max_timestamp,
        )


class TailIndexes(SegmentIndexes):
    """Indexes that batches are added to while the earlier entries stay in the files, until a look-up needs them."""

    __slots__ = ("begin_position", "known")

    def __init__(self, base_offset: int, interval_bytes: int, known: IndexTail, begin_position: int) -> None:
        """``known`` is what the files hold of the batches before ``begin_position``."""
        self.known = known
        self.begin_position = begin_position
        super().__init__(OffsetIndex(base_offset), TimeIndex(base_offset), interval_bytes, begin_position)
        self.since_entry_bytes = begin_position - known.last_position
        self.max_timestamp = known.max_timestamp

    def count_entries(self) -> None:
        """As there, with those in the files."""
        known = self.known
        offset_bytes = (known.offset_count + len(self.offsets.positions) + 1) * OFFSET_ENTRY_BYTES
        time_bytes = (known.time_count + len(self.times.timestamps) + 2) * TIME_ENTRY_BYTES
        self.wanted_bytes = max(time_bytes, offset_bytes)

    def known_from_bytes(self, offset_data: bytes, time_data: bytes) -> SegmentIndexes:
        """The earlier entries, of the files' content. Raises `Corrupt` if the files do not hold them.

        Bytes behind them in a file are void: they will be written again.
        """
        known, base_offset = self.known, self.offsets.base_offset
        offset_part = offset_data[: known.offset_count * OFFSET_ENTRY_BYTES]
        time_part = time_data[: known.time_count * TIME_ENTRY_BYTES]
        if crc32c(offset_part) != known.offset_crc or crc32c(time_part) != known.time_crc:
            raise Corrupt(f"the indexes of segment {base_offset:020d} are not those that were stored; rebuild them")
        offsets = OffsetIndex.from_bytes(base_offset, offset_part)
        times = TimeIndex.from_bytes(base_offset, time_part)
        offsets.stored_count *= len(offset_part) == len(offset_data)
        times.stored_count *= len(time_part) == len(time_data)
        return SegmentIndexes(offsets, times, self.interval_bytes, self.begin_position)

    def joined_to(self, earlier: SegmentIndexes) -> SegmentIndexes:
        """``earlier`` with the batches that were added here; it is changed."""
        offsets, times = earlier.offsets, earlier.times
        offsets.relative_offsets += self.offsets.relative_offsets
        offsets.positions += self.offsets.positions
        for timestamp_ms, relative_offset in zip(self.times.timestamps, self.times.relative_offsets, strict=True):
            times.maybe_append(timestamp_ms, offsets.base_offset + relative_offset)
        earlier.max_timestamp = self.max_timestamp
        earlier.since_entry_bytes = self.since_entry_bytes
        earlier.count_entries()
        return earlier
