"""The two indexes of a segment together, and the rule by which they grow with each batch."""

from __future__ import annotations

from functools import partial

from stratalog.hot.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeEntry, TimeIndex

__all__ = ["SegmentIndexes"]

_time_entry = partial(tuple.__new__, TimeEntry)
"""A `TimeEntry` from a tuple, at half the cost: batches come with one each as long as time goes on."""


class SegmentIndexes:
    """Both indexes of a segment, and the rule by which they grow."""

    __slots__ = ("_since_entry_bytes", "interval_bytes", "max_timestamp", "offsets", "times", "wanted_bytes")

    def __init__(self, offsets: OffsetIndex, times: TimeIndex, interval_bytes: int, end_position: int) -> None:
        self.offsets = offsets
        self.times = times
        self.interval_bytes = interval_bytes
        self.max_timestamp = times.last()
        self._since_entry_bytes = end_position - (offsets.positions[-1] if offsets.positions else 0)
        self.wanted_bytes = 0
        """What the larger file needs for one more entry; the time index also for the entry that closes it."""
        self._count_entries()

    @classmethod
    def empty(cls, base_offset: int, interval_bytes: int) -> SegmentIndexes:
        """The indexes of a segment without batches."""
        return cls(OffsetIndex(base_offset), TimeIndex(base_offset), interval_bytes, 0)

    def add_batch(self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Note the batch that begins at ``position``."""
        if max_timestamp_ms > self.max_timestamp[0]:
            self.max_timestamp = _time_entry((max_timestamp_ms, last_offset))
        if self._since_entry_bytes > self.interval_bytes:
            self.offsets.append(last_offset, position)
            self.times.maybe_append(*self.max_timestamp)
            self._since_entry_bytes = 0
            self._count_entries()
        self._since_entry_bytes += size_bytes

    def close(self) -> None:
        """The segment is complete: its largest timestamp gets the last time entry."""
        self.times.maybe_append(*self.max_timestamp)
        self._count_entries()

    def _count_entries(self) -> None:
        offset_bytes = (len(self.offsets.positions) + 1) * OFFSET_ENTRY_BYTES
        time_bytes = (len(self.times.timestamps) + 2) * TIME_ENTRY_BYTES
        self.wanted_bytes = max(time_bytes, offset_bytes)

    @property
    def size_bytes(self) -> int:
        """Memory of the columns."""
        return self.offsets.size_bytes + self.times.size_bytes
