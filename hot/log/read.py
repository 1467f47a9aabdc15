"""Reads: finds the slices of segment files from an offset on, which end on batch borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from stratalog.hot.recovery.missing import missing_range
from stratalog.hot.segments.scan import Damage, UnreadableBatch, scan_borders, scan_checked, unreadable
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segments import SegmentList
from stratalog.hot.segments.transaction_index import AbortedTxn, overlapping
from stratalog.hot.storage.filesystem import File
from stratalog.wire.parts import FileSlice

__all__ = ["CHECKED_BYTES_MAX", "LocalRead", "aborted_transactions", "check_batches", "read_slices"]

CHECKED_BYTES_MAX: Final = 1 << 20
"""Bytes of a read that are checked; they cost a third of a millisecond."""


class LocalRead(NamedTuple):
    """Whole batches. The first one holds the offset asked for, or follows it.

    ``next_offset`` is where the next read goes on: the first offset behind the slices.
    """

    parts: list[FileSlice]
    size_bytes: int
    next_offset: int


def read_slices(
    segments: SegmentList, offset: int, *, max_bytes: int, end_offset: int, min_one_batch: bool
) -> LocalRead:
    """Slices from the batch of ``offset`` up to ``end_offset`` (exclusive, a batch border), at most ``max_bytes``.

    Larger only for a first batch that does not fit and ``min_one_batch``. The slices end where a range is missing. Without slices
    the next offset is that of the call, or ``end_offset`` if no batch begins below it.
    Raises `MissingRange` where they would begin in one, `UnreadableBatch`, and `OSError`.
    """
    parts: list[FileSlice] = []
    size_bytes = 0
    number = segments.floor(offset)
    while number < len(segments) and offset < end_offset and (size_bytes < max_bytes or not parts):
        segment = segments[number]
        number += 1
        start = segments.border_in(segment, offset)
        if start is None:
            start = _begin(segment, offset)
        if start >= segment.written_bytes:
            if segment.missing is not None:
                if not parts:
                    raise missing_range(segment)
                break
            continue
        file = segment.file
        end, border = segment.written_bytes, segment.next_offset
        if end_offset < border:
            end, border = _cut(segments, segment, end_offset), end_offset
        room = max_bytes - size_bytes
        if end - start > room:
            end, border = _whole_batches(segment, file, start, end, room, one=min_one_batch and not parts)
            number = len(segments)
        if end > start:
            parts.append(FileSlice(file, start, end - start))
            size_bytes += end - start
            offset = max(offset, border)
            if number == len(segments) and border != segment.next_offset:  # the end of a segment is known anyway
                segments.note_border(border, segment, end)
    return LocalRead(parts, size_bytes, offset if parts else _behind_gap(segments, offset, end_offset))


def _behind_gap(segments: SegmentList, offset: int, end_offset: int) -> int:
    """``end_offset`` if no batch has a record at or above ``offset``, though the log does not end there; else ``offset``."""
    if offset >= end_offset:
        return offset
    behind = segments[segments.floor(offset) :]
    return end_offset if all(_begin(one, offset) >= one.written_bytes for one in behind) else offset


def _begin(segment: Segment, offset: int) -> int:
    """The position of the first batch with a record at or above ``offset``; the written end if there is none."""
    if segment.written_bytes == 0 or offset <= segment.base_offset:
        return 0
    found = segment.locate(offset)
    return segment.written_bytes if found is None else found[0]


def _cut(segments: SegmentList, segment: Segment, end_offset: int) -> int:
    """The position at which ``end_offset`` cuts the segment."""
    known = segments.border_in(segment, end_offset)
    if known is not None:
        return known
    found = segment.locate(end_offset)
    position = segment.written_bytes if found is None else found[0]
    segments.note_border(end_offset, segment, position)
    return position


def _whole_batches(segment: Segment, file: File, start: int, end: int, room: int, *, one: bool) -> tuple[int, int]:
    """The last batch border within ``room`` bytes of ``start``, and its offset; the first batch's end if ``one``."""
    limit = start + room
    first, behind = segment.base_offset, segment.next_offset
    indexed_offset, indexed = segment.indexes.offsets.floor_at(limit)
    after, border = start, first
    for floor in (max(indexed, start), start):
        after, border = floor, first
        for position, size_bytes, base_offset, last_offset in scan_borders(file, floor, end):
            if position == floor > start and last_offset != indexed_offset:
                break  # the index has no checksum, and did not lead to the batch of its entry
            if segment.frozen and not border <= base_offset <= last_offset < behind:
                break  # a read at this offset reports the damage
            after = position + size_bytes
            if after > limit and not (one and position == start):
                return position, base_offset if border <= base_offset < behind else border
            border = last_offset + 1
            if after >= limit:
                return after, border
    if after == start:
        raise unreadable(segment.path(), start)
    return after, border


def check_batches(parts: Sequence[FileSlice], offset: int, gaps_below: int) -> None:
    """Check the CRCs and the offsets of the first batches that were read from ``offset`` on.

    No CRC covers the offset of a batch. Offsets may be missing below ``gaps_below``. Raises `UnreadableBatch`, `OSError`.
    """
    left_bytes = CHECKED_BYTES_MAX
    for part in parts:
        file: Any = part.file
        for batch in scan_checked(file, part.position, part.position + part.length, 0):
            if isinstance(batch, Damage):
                raise UnreadableBatch(file.path, batch.position, batch.reason)
            base_offset, next_offset = batch.header.base_offset, batch.header.next_offset
            if next_offset <= offset or offset < base_offset > gaps_below:
                reason = f"offset {offset} is due, the batch there has [{base_offset}, {next_offset})"
                raise UnreadableBatch(file.path, batch.position, reason)
            offset = next_offset
            left_bytes -= batch.header.size_bytes
            if left_bytes <= 0:
                return


def aborted_transactions(segments: SegmentList, from_offset: int, to_offset: int) -> list[AbortedTxn]:
    """The aborted transactions that touch ``[from_offset, to_offset)``, by the markers' segments.

    Markers stand behind the records they void, so later segments are searched too, until an entry whose last
    stable offset shows that nothing before ``to_offset`` was open any more. Raises `OSError`, `Corrupt`.
    """
    found: list[AbortedTxn] = []
    for number in range(segments.floor(from_offset), len(segments)):
        touching, is_last = overlapping(segments[number].aborted, from_offset, to_offset)
        found += touching
        if is_last:
            break
    return found
