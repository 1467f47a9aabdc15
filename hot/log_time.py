"""From timestamps to offsets: by the time index to the segment and batch, then record by record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stratalog.hot.scan import read_batch, scan_headers
from stratalog.hot.segment import Segment
from stratalog.hot.segments import SegmentList
from stratalog.wire.batch import BatchHeader, Record, iter_records

__all__ = ["TimestampOffset", "find_max_timestamp", "find_timestamp"]


class TimestampOffset(NamedTuple):
    """A record: when, where, and by which leader."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def find_timestamp(
    segments: SegmentList, timestamp_ms: int, start_offset: int, end_offset: int
) -> TimestampOffset | None:
    """The first record at or after ``timestamp_ms`` in ``[start_offset, end_offset)``; None if there is none.

    Raises `OSError`, and `Corrupt` for a batch that cannot be decoded.
    """
    for segment in segments:
        if segment.base_offset >= end_offset:
            return None
        if segment.written_bytes == 0 or segment.max_timestamp.timestamp_ms < timestamp_ms:
            continue
        indexes = segment.indexes
        floor = indexes.times.lookup(timestamp_ms).offset
        start = indexes.offsets.lookup(max(floor, start_offset))
        found = _find_in(segment, start, timestamp_ms, start_offset, end_offset)
        if found is not None:
            return found
    return None


def _find_in(
    segment: Segment, start: int, timestamp_ms: int, start_offset: int, end_offset: int
) -> TimestampOffset | None:
    for position, header in scan_headers(segment.file, start, segment.written_bytes):
        if header.base_offset >= end_offset:
            return None
        if header.max_timestamp >= timestamp_ms:
            for record in _records(segment, position, header):
                if record.timestamp_ms >= timestamp_ms and start_offset <= record.offset < end_offset:
                    return TimestampOffset(record.timestamp_ms, record.offset, header.partition_leader_epoch)
    return None


def find_max_timestamp(segments: SegmentList) -> TimestampOffset | None:
    """The first record with the largest timestamp; None while there is no timestamp. Raises as `find_timestamp`."""
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
    for record in _records(best, position, header):
        if record.timestamp_ms >= timestamp_ms:
            return TimestampOffset(record.timestamp_ms, record.offset, header.partition_leader_epoch)
    return TimestampOffset(timestamp_ms, offset, header.partition_leader_epoch)


def _records(segment: Segment, position: int, header: BatchHeader) -> Iterator[Record]:
    """One record at a time: a small batch may hold a million, which would fill the memory together."""
    return iter_records(read_batch(segment.file, position, header))
