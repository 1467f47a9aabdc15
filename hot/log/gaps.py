"""Where a log may lack offsets: a gap anywhere else is damage."""

from __future__ import annotations

import struct
from typing import Final

from stratalog.wire.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES

__all__ = ["NO_ROW", "LogGaps"]

NO_ROW: Final = -1
"""Instead of an offset where ``log-bounds`` says of a log that it has no gaps, or nothing: a start asks what the topic's policy is."""

_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_INT: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_POSITION: Final = 23
_RECORD_COUNT_POSITION: Final = 57


class LogGaps:
    """From ``below`` on no offset is missing: the cleaner was never there, and no leader has sent a gap.

    From ``border_below`` on none is missing between the last batch of a segment and the next segment: there a power cut
    leaves a hole, where it takes the end of a file that was not synced and leaves the next one. So nothing that this
    replica has not synced lies below.
    """

    __slots__ = ("allowed_below", "below", "border_below", "cleaned", "kept_below", "kept_border_below")

    def __init__(self, below: int, border_below: int | None = None, kept_border_below: int | None = None) -> None:
        self.below = below
        self.border_below = below if border_below is None else border_below
        self.kept_below = below
        """The value in ``log-bounds``: after a crash a gap between batches above it is taken for damage."""
        self.kept_border_below = self.border_below if kept_border_below is None else kept_border_below
        """The value in ``log-bounds``, or `NO_ROW`. It may be too large: the log was cut, or an earlier version has written it."""
        self.allowed_below = 0 if self.kept_border_below == NO_ROW else below
        """As ``below``, but never merely the log's end, because its row does not count: a cleaner came no further."""
        self.cleaned = False
        """True if the log was cleaned: offsets may be missing, also if the topic is no longer compacted."""

    @property
    def is_in_row(self) -> bool:
        """Whether a crash leaves the gaps that are here, and takes nothing else for one. A log that may have none needs no row."""
        return self.below <= self.kept_below and self.border_below == self.kept_border_below

    def lacks_row(self, may_have_gaps: bool) -> bool:
        """Whether ``log-bounds`` does not say yet where offsets may be missing."""
        return may_have_gaps and not self.is_in_row

    def row(self, may_have_gaps: bool) -> tuple[int, int] | tuple[None, None]:
        """For ``log-bounds``: below which offset there may be gaps, and below which also at the ends of segments."""
        return (self.below, self.border_below) if may_have_gaps else (None, None)

    def expect(self, offset: int) -> None:
        """Allow gaps below ``offset``; the caller has that stored before there is one."""
        self.below = max(self.below, offset)
        self.allowed_below = max(self.allowed_below, offset)
        self.cleaned = True

    def expect_at_borders(self, offset: int) -> None:
        """Allow gaps below ``offset`` at the ends of segments, too; all that the log has below it is synced."""
        self.below = max(self.below, offset)
        self.allowed_below = max(self.allowed_below, offset)
        self.border_below = max(self.border_below, offset)

    def allow_below(self, offset: int) -> None:
        """Take ``offset`` for `allowed_below`, as the log directory has it at a start."""
        self.allowed_below = min(offset, self.below)

    def kept(self, below: int | None, border_below: int | None) -> None:
        """Note that ``log-bounds`` has these, None for a log without gaps."""
        self.kept_below = min(self.below, below or 0)  # a later row may have less, if the log was cut meanwhile
        self.kept_border_below = NO_ROW if border_below is None else border_below

    def differs(self, below: int | None, border_below: int | None) -> bool:
        """Whether `kept` has something to note once ``log-bounds`` has these."""
        kept = min(self.below, below or 0), NO_ROW if border_below is None else border_below
        return kept != (self.kept_below, self.kept_border_below)

    def are_kept_at_borders(self, offset: int) -> bool:
        """Whether gaps below ``offset`` at the ends of segments are no damage after a crash."""
        return offset <= min(self.kept_below, self.border_below, self.kept_border_below)

    def cut(self, end_offset: int) -> None:
        """Take ``end_offset`` as the new end of the log."""
        self.below = min(self.below, end_offset)
        self.border_below = min(self.border_below, end_offset)
        self.allowed_below = min(self.allowed_below, end_offset)
        self.kept_below = min(self.kept_below, self.below)

    def first_unkept(self, records: memoryview, next_offset: int) -> tuple[int, int] | None:
        """The first batch behind a gap, or with one inside, that is not kept: its position, and where the gap ends.

        ``records`` are batches from ``next_offset`` on, maybe torn at the end.
        """
        position = 0
        while position + HEADER_BYTES <= len(records):
            base_offset, length = _OFFSET_AND_LENGTH.unpack_from(records, position)
            if next_offset < base_offset > self.kept_below:
                return position, base_offset
            if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
                return None  # damage, which the append finds
            (last_offset_delta,) = _INT.unpack_from(records, position + _LAST_OFFSET_DELTA_POSITION)
            (record_count,) = _INT.unpack_from(records, position + _RECORD_COUNT_POSITION)
            next_offset = base_offset + last_offset_delta + 1
            if record_count <= last_offset_delta and next_offset > self.kept_below:
                return position, next_offset
            position += LOG_OVERHEAD_BYTES + length
        return None
