"""Finding where the active segment ends after a clean stop, by its last index entry and the headers behind it."""

from __future__ import annotations

from stratalog.hot.recovery.opening import OpenRequest
from stratalog.hot.segments.index import OFFSET_ENTRY_BYTES
from stratalog.hot.segments.scan import scan_within
from stratalog.hot.segments.segment import RELATIVE_OFFSET_MAX, Segment
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.wire.batch import check_batch
from stratalog.wire.errors import Corrupt

__all__ = ["end_of_clean_tail", "trust_active"]


def trust_active(request: OpenRequest, active: Segment) -> bool:
    """Find the log end from the active segment's indexes and tail; False if it does not add up. Raises `OSError`."""
    try:
        active.aborted  # noqa: B018 - reading it is the check
    except Corrupt:
        return False
    if active.size_bytes == 0:
        return active.base_offset >= request.recovery_point
    end = end_of_clean_tail(request.files, active, request.gaps_below)
    if end is None or end < max(active.base_offset, request.recovery_point):
        return False
    active.next_offset = end
    for _, header in scan_within(active.file, 0, active.size_bytes, active.base_offset, end, step_bytes=64):
        active.roll_timestamp_ms = header.max_timestamp
        break
    request.cache.drop(active)
    return True


def end_of_clean_tail(files: Filesystem, active: Segment, gaps_below: int) -> int | None:
    """The offset behind the last batch; None if the batches do not follow each other up to the end of the file.

    Below ``gaps_below`` offsets may be missing between them. Raises `OSError`.
    """
    first, behind = active.base_offset, active.base_offset + RELATIVE_OFFSET_MAX + 1
    position, due_max = _last_indexed(files, active)
    due, last = first, None
    for found, header in scan_within(active.file, position, active.size_bytes, first, behind):
        if found != position or not due <= header.base_offset <= max(due_max, gaps_below):
            return None
        position, due, last = found + header.size_bytes, header.next_offset, header
        due_max = due
    if position != active.size_bytes or last is None:
        return None
    try:  # no later batch bears out how many offsets the last one takes
        check_batch(active.file.pread(last.size_bytes, position - last.size_bytes))
    except Corrupt:
        return None
    return due


def _last_indexed(files: Filesystem, segment: Segment) -> tuple[int, int]:
    """Where the batch of the last index entry begins, and the offset that it cannot begin above."""
    try:
        file = files.open_read(segment.path(".index"))
    except FileNotFoundError:
        return 0, segment.base_offset
    data = file.pread(OFFSET_ENTRY_BYTES, max(file.size_bytes() - OFFSET_ENTRY_BYTES, 0))
    if len(data) < OFFSET_ENTRY_BYTES:
        return 0, segment.base_offset
    relative_offset, position = (int.from_bytes(data[at : at + 4], "big") for at in (0, 4))
    if not 0 < position < segment.size_bytes:
        return 0, segment.base_offset
    return position, segment.base_offset + relative_offset
