"""Ranges that a log has and its disk has no more: frozen segments that were damaged, from the first bad batch on.

Such a range is a segment of its own, frozen and empty, so that everything that goes from segment to segment meets it.
Beside its empty ``.log`` lies a note, ``.missing``, which says why and where the damaged bytes are kept. The cleaner
never leaves an empty segment. So where no offset may be missing, an empty frozen segment is such a range without a note,
too.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from stratalog.hot.config import LogConfig
from stratalog.hot.segments.segment import SUFFIXES, Segment, segment_path
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.storage.checkpoint import write_durably
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.wire.errors import Corrupt

__all__ = [
    "MISSING",
    "MissingPlace",
    "MissingRange",
    "mark_missing",
    "missing_range",
    "missing_segment",
    "noted_reason",
]

MISSING: Final = SUFFIXES[4]
_VERSION: Final = 0


class MissingRange(Corrupt):
    """No byte of ``[base_offset, end_offset)`` can be read here. The archive may have the range."""

    def __init__(self, base_offset: int, end_offset: int, path: str, why: str) -> None:
        super().__init__(f"offsets [{base_offset}, {end_offset}) are missing in {path}: {why}")
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.path = path
        self.why = why

    @property
    def next_offset(self) -> int:
        """Where a search goes on."""
        return self.end_offset


class MissingPlace(NamedTuple):
    """The log in which a range is missing."""

    files: Filesystem
    directory: str
    config: LogConfig
    cache: SegmentCache


def missing_range(segment: Segment) -> MissingRange:
    """The error of a reader that comes to such a segment."""
    return MissingRange(segment.base_offset, segment.next_offset, segment.path(), segment.missing or "")


def missing_segment(place: MissingPlace, base_offset: int, end_offset: int, why: str) -> Segment:
    """Begin such a segment: its note, which is durable, then its ``.log``, if there is none. Raises `OSError`."""
    note = json.dumps({"version": _VERSION, "end_offset": end_offset, "why": why}).encode()
    write_durably(place.files, segment_path(place.directory, base_offset, MISSING), note)
    segment = Segment(
        place.files,
        place.directory,
        base_offset,
        place.config,
        place.cache,
        next_offset=end_offset,
        frozen=True,
    )
    place.files.open_append(segment.path()).close()
    place.files.sync_directory(place.directory)
    segment.missing = why
    return segment


def mark_missing(files: Filesystem, segment: Segment, border_gaps_below: int) -> bool:
    """Whether a frozen, empty segment that was found stands for a missing range; then it says so. Raises `OSError`."""
    if segment.size_bytes or not segment.frozen:
        return False
    segment.missing = noted_reason(files, segment)
    if segment.missing is None and segment.next_offset > max(segment.base_offset, border_gaps_below):
        segment.missing = f"{segment.path()} is empty"
    return segment.missing is not None


def noted_reason(files: Filesystem, segment: Segment) -> str | None:
    """Read the note beside a segment; None if there is no note. Raises `OSError`."""
    try:
        note = files.read_bytes(segment.path(MISSING))
    except FileNotFoundError:
        return None
    try:
        return str(json.loads(note)["why"])
    except (ValueError, KeyError, TypeError):
        return f"{segment.path()} was damaged, and the note about it is, too"
