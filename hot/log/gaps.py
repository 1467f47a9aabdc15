"""Where a log may lack offsets: a gap anywhere else is damage."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from stratalog.hot.config import LONG_MAX
from stratalog.wire.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES

__all__ = ["NO_ROW", "LogGaps"]

NO_ROW: Final = -1
"""Instead of an offset where ``log-bounds`` says of a log that it has no gaps, or nothing: a start asks what the topic's policy is."""

_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_OFFSET_LENGTH_AND_EPOCH: Final = struct.Struct(">qii")
_INT: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_POSITION: Final = 23
_RECORD_COUNT_POSITION: Final = 57


class LogGaps:
    """From ``below`` on no offset is missing: the cleaner was never there, and no leader has sent a gap.

    From ``border_below`` on none is missing between the last batch of a segment and the next segment: there a power cut
    leaves a hole, where it takes the end of a file that was not synced and leaves the next one. So nothing that this
    replica has not synced lies below.

    Below ``passed_below`` records may be gone for later ones that lie below it, too, perhaps behind the end of this log: it
    was copied from one that is cleaned, or was cut. A log that ends before lacks records unless its leader has all of these.
    """

    __slots__ = (
        "below", "border_below", "cleaned", "kept_below", "kept_border_below", "passed_below", "passed_epoch",
    )  # fmt: skip

    def __init__(self, below: int, border_below: int | None = None, kept_border_below: int | None = None) -> None:
        self.below = below
        self.border_below = below if border_below is None else border_below
        self.kept_below = below
        """The value in ``log-bounds``: after a crash a gap between batches above it is taken for damage."""
        self.kept_border_below = self.border_below if kept_border_below is None else kept_border_below
        """The value in ``log-bounds``, or `NO_ROW`. It may be too large: the log was cut, or an earlier version has written it."""
        self.cleaned = False
        """True if the log was cleaned: offsets may be missing, also if the topic is no longer compacted."""
        self.passed_below = 0
        self.passed_epoch = LONG_MAX
        """No record that was committed below ``passed_below`` is of a later leader epoch; the largest number if that is not known."""

    @property
    def is_in_row(self) -> bool:
        """Whether a crash leaves the gaps that are here, and takes nothing else for one. A log that may have none needs no row."""
        return self.below <= self.kept_below and self.border_below == self.kept_border_below

    @property
    def known_epoch(self) -> int | None:
        """``passed_epoch``; None if it is not known."""
        return self.passed_epoch if self.passed_epoch < LONG_MAX else None

    def lacks_row(self, may_have_gaps: bool) -> bool:
        """Whether ``log-bounds`` does not say yet where offsets may be missing."""
        return may_have_gaps and not self.is_in_row

    def row(self, may_have_gaps: bool, end_offset: int) -> tuple[int | None, int | None, int | None]:
        """For ``log-bounds``: below which offset there may be gaps, and below which also at the ends of segments.

        A log that is short of where a cleaner was says so at each start, which allows no gaps beyond its end. The third is
        the epoch in which that cleaner had come there, as long as the log is short of it.
        """
        if not may_have_gaps:
            return None, None, None
        is_short = end_offset < self.passed_below >= self.below
        return max(self.below, self.passed_below), self.border_below, self.known_epoch if is_short else None

    def expect(self, offset: int) -> None:
        """Allow gaps below ``offset``; the caller has that stored before there is one."""
        self.below = max(self.below, offset)
        self.cleaned = True

    def expect_at_borders(self, offset: int) -> None:
        """Allow gaps below ``offset`` at the ends of segments, too; all that the log has below it is synced."""
        self.below = max(self.below, offset)
        self.border_below = max(self.border_below, offset)

    def passed(self, offset: int, epoch: int) -> None:
        """Note how far a cleaner has come that takes records away for later ones: below ``offset`` all is committed by ``epoch``."""
        if (offset, -epoch) > (self.passed_below, -self.passed_epoch):
            self.passed_below, self.passed_epoch = offset, epoch

    def know_passed(self, offset: int, epoch: int | None = None) -> None:
        """Take over how far a cleaner was, as the log directory has it at a start; None if it is not known in which epoch."""
        self.passed_below, self.passed_epoch = offset, LONG_MAX if epoch is None else epoch

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
        self.kept_below = min(self.kept_below, self.below)

    def begin_anew(self, offset: int) -> None:
        """The log begins again at ``offset``, and will be copied from there as a whole."""
        self.cut(offset)  # not below the row of the cleaner: at the next start none would be known
        if offset < self.passed_below:  # by the row that is stored a start would have the new copy made once more
            self.kept_border_below = NO_ROW
        self.passed_below = 0

    def keep_over(self, begin: Callable[[], object]) -> None:
        """Have ``begin`` begin an empty log further down, with a batch that may have gaps itself. All that is noted stays so."""
        below, passed_below, epoch = self.below, self.passed_below, self.passed_epoch
        begin()
        if below > self.below:
            self.expect(below)
        self.passed(passed_below, epoch)

    def note_copy(self, records: memoryview, next_offset: int, committed_below: int, epoch: int) -> None:
        """Note how far the leader's cleaner may have come if it has left gaps in these batches: to ``committed_below``.

        It may overtake a long copy. Where gaps are kept already that is written down when the log reaches their end.
        """
        if self.below <= next_offset and self.below < self.passed_below:
            self.expect(self.passed_below)
        is_overtaken = next_offset < self.kept_below and self.passed_below < committed_below
        if is_overtaken and (gap := _first_gap(records, next_offset, -1)) is not None:
            _, gap_end = gap
            self.passed(max(committed_below, gap_end), epoch)  # a leader's mark may be behind: it has just begun

    def first_of_another(self, records: memoryview, next_offset: int, leader_epoch: int) -> int | None:
        """Where a history begins in these batches that lacks the records for whose sake a cleaner has taken others away.

        A larger epoch than that of the leader is damage, which the append finds.
        """
        position = 0 if next_offset < self.passed_below else len(records)
        while position + HEADER_BYTES <= len(records):
            base_offset: int
            base_offset, length, epoch = _OFFSET_LENGTH_AND_EPOCH.unpack_from(records, position)
            if self.passed_epoch < epoch <= leader_epoch and base_offset < self.passed_below:
                return base_offset
            if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
                break  # damage, which the append finds
            position += LOG_OVERHEAD_BYTES + length
        return None

    def first_unkept(self, records: memoryview, next_offset: int) -> tuple[int, int] | None:
        """The first batch behind a gap, or with one inside, that is not kept: its position, and where the gap ends.

        ``records`` are batches from ``next_offset`` on, maybe torn at the end.
        """
        return _first_gap(records, next_offset, self.kept_below)


def _first_gap(records: memoryview, next_offset: int, above: int) -> tuple[int, int] | None:
    """The first gap that reaches beyond ``above``."""
    position = 0
    while position + HEADER_BYTES <= len(records):
        base_offset, length = _OFFSET_AND_LENGTH.unpack_from(records, position)
        if next_offset < base_offset > above:
            return position, base_offset
        if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            return None  # damage, which the append finds
        (last_offset_delta,) = _INT.unpack_from(records, position + _LAST_OFFSET_DELTA_POSITION)
        (record_count,) = _INT.unpack_from(records, position + _RECORD_COUNT_POSITION)
        next_offset = base_offset + last_offset_delta + 1
        if record_count <= last_offset_delta and next_offset > above:
            return position, next_offset
        position += LOG_OVERHEAD_BYTES + length
    return None
