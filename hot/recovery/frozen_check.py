"""Looking at frozen segments when a log is opened, without reading them: what is cut short or gone is found.

A segment whose file stands as the last orderly stop left it is believed. In any other one the last index entry is
followed, and the headers behind it: they must lead to the end of the file and to the offset at which the next segment
begins. That finds cut tails, missing files and an end that is damaged. Bytes that changed in the middle of a file are not
found here; a read finds them (`hot.recovery.set_aside`).

Where offsets may be missing, a file that was cut on a batch border looks like a sound one. There the size at the last
orderly stop decides, or an index that reaches beyond the end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from stratalog.hot.recovery.interrupted import NAMED
from stratalog.hot.recovery.opening import OpenRequest
from stratalog.hot.segments.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeEntry, TimeIndex
from stratalog.hot.segments.scan import scan_headers
from stratalog.hot.segments.segment import CLEANED, SUFFIXES, SWAP, Segment, segment_path
from stratalog.hot.storage.filesystem import Entry, File, FileStatus, Filesystem
from stratalog.wire.errors import Corrupt

__all__ = ["Suspicion", "lost_logs", "suspicion"]

_LOG: Final = SUFFIXES[0]
_INDEX: Final = SUFFIXES[1]


class Suspicion(NamedTuple):
    """Why a frozen segment cannot be believed."""

    why: str
    certain: bool = False
    """Its end is gone, whatever its batches say."""


class _Ends(NamedTuple):
    """Where the indexes of a segment end: position and offset of the last entry, and the last time entry."""

    position: int
    offset: int
    time: TimeEntry
    there: bool
    """Both files can be read."""


def lost_logs(request: OpenRequest, entries: Collection[Entry]) -> list[int]:
    """The base offsets of segments whose ``.log`` should be there and is not.

    It was there at the orderly stop that has just been; or its ``.index`` is there, without a ``.log`` of any name:
    whatever removes a segment renames its ``.log`` first, and removes that only after its ``.index`` has left durably.
    Where no segment is left, the last one with flushed batches counts: a log always has a segment. Renamed files are those of
    segments that were removed.
    """
    logs: set[int] = set()
    expected: set[int] = set()
    has_segment = False
    for entry in entries:
        match = NAMED.match(entry.name)
        if match is None:
            continue
        if entry.name.startswith(match[1] + _LOG):
            logs.add(int(match[1]))
            has_segment |= entry.name == match[1] + _LOG
        elif entry.name == match[1] + _INDEX:
            expected.add(int(match[1]))
    if request.clean and request.summary is not None and request.summary.topic_id == request.topic_id:
        expected |= {int(name[: -len(_LOG)]) for name in request.summary.files if name.endswith(_LOG)}
    if any(entry.name.endswith((SWAP, CLEANED)) for entry in entries):
        return []  # a swap is completed first, and the segments before tell where one is missing
    if not has_segment:
        return sorted(base for base in expected - logs if base < request.recovery_point)[-1:]
    last = max(logs)
    return sorted(base for base in expected - logs if base < last)


def suspicion(
    request: OpenRequest, segment: Segment, gaps_below: int, border_gaps_below: int | None = None
) -> Suspicion | None:
    """Describe the damage of a frozen segment that has bytes; None if it is believed. Raises `OSError`."""
    gaps = gaps_below, gaps_below if border_gaps_below is None else border_gaps_below
    known, followed = _known(request, segment)
    if known is not None and followed and request.files.status(segment.path()) == known:
        return None
    ends = _ends(request.files, segment)
    found = _walk(request.files.open_read(segment.path()), segment, ends, gaps)
    if known is not None and request.clean and known.size_bytes > segment.size_bytes:
        return Suspicion(f"the file has {segment.size_bytes} of {known.size_bytes} bytes", certain=True)
    if found is None and not ends.there:
        return Suspicion("an index is missing or damaged")
    return found


def _known(request: OpenRequest, segment: Segment) -> tuple[FileStatus | None, bool]:
    """How the file stood at the last orderly stop, and whether the same segment came behind it."""
    summary = request.summary
    if summary is None or summary.topic_id != request.topic_id:
        return None, False
    name, following = (segment_path("", base, _LOG)[1:] for base in (segment.base_offset, segment.next_offset))
    later = min((one for one in summary.files if one.endswith(_LOG) and one > name), default="")
    return summary.files.get(name), later == following


def _ends(files: Filesystem, segment: Segment) -> _Ends:
    base = segment.base_offset
    try:
        offsets = _last(files, segment.path(".index"), OFFSET_ENTRY_BYTES)
        times = _last(files, segment.path(".timeindex"), TIME_ENTRY_BYTES)
        index, time_index = OffsetIndex.from_bytes(base, offsets), TimeIndex.from_bytes(base, times)
    except (Corrupt, FileNotFoundError):
        return _Ends(0, -1, TimeEntry(-1, -1), there=False)
    position = index.positions[-1] if len(index) else 0
    offset = base + index.relative_offsets[-1] if len(index) else -1
    return _Ends(position, offset, time_index.last(), there=True)


def _last(files: Filesystem, path: str, entry_bytes: int) -> bytes:
    """The last entry of an index, or nothing of an empty one."""
    file = files.open_read(path)
    size_bytes = file.size_bytes()
    if size_bytes % entry_bytes:
        raise Corrupt(f"{path} has {size_bytes} bytes, which are not whole entries")
    return file.pread(entry_bytes, max(0, size_bytes - entry_bytes))


def _walk(file: File, segment: Segment, ends: _Ends, gaps: tuple[int, int]) -> Suspicion | None:
    """Follow the last index entry to the end of the file; what does not add up. ``gaps``: within, and at the end.

    No single bit that changed in an index makes a certain suspicion: both columns of an entry must say the same.
    """
    size_bytes, limit = segment.size_bytes, segment.next_offset
    gaps_below, border_gaps_below = gaps
    beyond = ends.offset >= 0 and ends.position >= size_bytes
    start = ends.position if ends.offset >= 0 and not beyond else 0
    found = _follow(file, segment, start, ends.offset if start else None, gaps_below)
    if found is None:
        found = _follow(file, segment, 0, None, gaps_below) or _Followed(0, segment.base_offset, -1)
    position, due, timestamp_ms = found
    if position != size_bytes:
        return Suspicion(f"no batch of its own stands at position {position} of {size_bytes}")
    if due > limit:
        return Suspicion(f"its batches end at offset {due}, the next segment begins at {limit}")
    if due < limit > border_gaps_below:
        return Suspicion(f"it ends at offset {due}, the next segment begins at {limit}")
    if beyond and due <= ends.offset < limit:
        return Suspicion(f"it ends at offset {due}, its index reaches up to {ends.offset}", certain=True)
    if due <= ends.time.offset < limit:
        every = _follow(file, segment, 0, None, gaps_below)  # an earlier batch may have the largest timestamp
        if ends.time.timestamp_ms > max(timestamp_ms, every.timestamp_ms if every else -1):
            return Suspicion(f"it ends at offset {due}, its time index reaches up to {ends.time.offset}", certain=True)
    beyond |= ends.time.offset >= due and ends.time.timestamp_ms >= 0  # an empty time index ends at the base offset
    return Suspicion("an index leads beyond its end") if beyond else None


class _Followed(NamedTuple):
    """Behind the last batch: position and offset; and the largest timestamp of those that were passed."""

    position: int
    offset: int
    timestamp_ms: int


def _follow(
    file: File, segment: Segment, position: int, indexed_offset: int | None, gaps_below: int
) -> _Followed | None:
    """Pass the batches from ``position`` on that follow each other; None if the index does not lead to its batch."""
    due: int | None = segment.base_offset if indexed_offset is None else None
    timestamp_ms = -1
    for at, header in scan_headers(file, position, segment.size_bytes):
        if due is None and header.last_offset != indexed_offset:
            return None
        if due is not None and (header.base_offset < due or due < header.base_offset > gaps_below):
            break
        if header.last_offset < header.base_offset:
            break
        position, due = at + header.size_bytes, header.next_offset
        timestamp_ms = max(timestamp_ms, header.max_timestamp)
    return None if due is None else _Followed(position, due, timestamp_ms)
