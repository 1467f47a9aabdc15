"""Finds batches by timestamp: the segment by its time index, then the batch by its header.

Each call takes bounded time, whatever the log holds. To open a batch takes longer, so it is left to the caller
(`BatchSearch`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stratalog.hot.recovery.missing import missing_range
from stratalog.hot.segments.batch_search import BatchSearch, TimestampOffset
from stratalog.hot.segments.scan import read_batch, unreadable
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segments import SegmentList

__all__ = ["ScanOn", "TimestampOffset", "max_timestamp_search", "timestamp_search"]

_HEADERS_MAX: Final = 10_000
"""Batches that one step passes over at most."""


class ScanOn(NamedTuple):
    """No batch so far, and more of the log to search: look again from ``next_offset`` on."""

    next_offset: int


def timestamp_search(
    segments: SegmentList, timestamp_ms: int, start_offset: int, end_offset: int
) -> BatchSearch | ScanOn | None:
    """The first batch that may hold a record at or after ``timestamp_ms`` in ``[start_offset, end_offset)``.

    None if there is none. A batch may turn out not to hold it; the search then goes on behind that batch. Raises
    `OSError`, `MissingRange` where it comes to a range that is missing, and `UnreadableBatch` where it cannot go on.
    """
    for segment in segments:
        if segment.base_offset >= end_offset:
            return None
        if segment.missing is not None and segment.next_offset > start_offset:
            raise missing_range(segment)
        if segment.next_offset <= start_offset or segment.written_bytes == 0:
            continue
        if segment.max_timestamp.timestamp_ms >= timestamp_ms:
            found = _search_in(segment, timestamp_ms, start_offset, end_offset)
            if found is not None:
                return found
    return None


def _search_in(segment: Segment, timestamp_ms: int, start_offset: int, end_offset: int) -> BatchSearch | ScanOn | None:
    indexes = segment.indexes
    floor = indexes.times.lookup(timestamp_ms).offset
    after = indexes.offsets.lookup(max(floor, start_offset))
    passed = 0
    for position, header in segment.headers(after):
        after = position + header.size_bytes
        if header.base_offset >= end_offset:
            return None
        if header.next_offset <= start_offset:
            continue
        if header.max_timestamp >= timestamp_ms and header.record_count:  # an emptied one keeps its times
            return BatchSearch(read_batch(segment.file, position, header), timestamp_ms, start_offset, end_offset)
        passed += 1
        if passed == _HEADERS_MAX:
            return ScanOn(header.next_offset)
    if after < segment.written_bytes and segment.frozen:
        raise unreadable(segment.path(), after)
    return None


def max_timestamp_search(segments: SegmentList) -> BatchSearch | TimestampOffset | None:
    """The batch with the first record that has the largest timestamp; None while there is no timestamp.

    A batch that is not yet in the file is named by its last offset. Raises as `timestamp_search`.
    """
    best = None
    for segment in segments:
        entry = segment.max_timestamp
        if entry.timestamp_ms >= 0 and (best is None or entry.timestamp_ms > best.max_timestamp.timestamp_ms):
            best = segment
    if best is None:
        return None
    timestamp_ms, offset = best.max_timestamp
    located = best.locate(offset)
    if located is None:
        return TimestampOffset(timestamp_ms, offset, -1)
    position, header = located
    otherwise = TimestampOffset(timestamp_ms, offset, header.partition_leader_epoch)
    batch = read_batch(best.file, position, header)
    return BatchSearch(batch, timestamp_ms, header.base_offset, header.next_offset, otherwise)
