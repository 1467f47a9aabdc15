"""Offers segments to the cleaner, and replaces old segments by a new one, for the log's owner.

All of it is called on the owner's thread. Readers see the old segments or the new one, never a gap: both give the
same records from any offset on, less those that a later record supersedes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from stratalog.hot.cleaner.cleaner import CleanedSegment, CleanJob
from stratalog.hot.cleaner.plan import CleanableSegment, CleaningPolicy, Section
from stratalog.hot.cleaner.swap import SegmentSwap
from stratalog.hot.config import LONG_MAX
from stratalog.hot.log.aborted import find_aborted
from stratalog.hot.log.ending_swaps import end_swap, finish_swap
from stratalog.hot.log.parts import LogParts
from stratalog.hot.log.restart import quarantine_and_restart
from stratalog.hot.segments.scan import scan_headers
from stratalog.hot.segments.segment import SWAP, Segment
from stratalog.wire.batch import HEADER_BYTES, NO_TIMESTAMP

__all__ = ["LogCompaction"]

_NEVER: Final = LONG_MAX


class LogCompaction:
    """The cleaner's side of one log."""

    __slots__ = ("_parts", "_swap_count")

    def __init__(self, parts: LogParts) -> None:
        self._parts = parts
        self._swap_count = 0

    @property
    def policy(self) -> CleaningPolicy:
        """The settings that the cleaner obeys."""
        config = self._parts.place.config
        return CleaningPolicy(
            config.min_cleanable_dirty_ratio, config.min_compaction_lag_ms, config.max_compaction_lag_ms
        )

    @property
    def cleaned_before(self) -> bool:
        """True if the log was cleaned before, also if the topic is no longer compacted."""
        return self._parts.gaps.cleaned

    def call_before_cuts(self, function: Callable[[int], None]) -> None:
        """Call it with the offset from which on batches are about to go; an `OSError` of it leaves them."""
        self._parts.place.before_cut = function

    def ask_how_far(self, function: Callable[[], int]) -> None:
        """Take the result of ``function`` for the offset below which the log is clean."""
        self._parts.place.clean_below = function

    @property
    def cleaned_offset(self) -> int:
        """The log is clean below this offset, by the row of its cleaner."""
        return self._parts.place.clean_below()

    def has_passed(self, offset: int) -> bool:
        """Whether records below ``offset`` may be gone for later ones from ``offset`` on.

        The cleaner has been here, or where the log was copied from. Both are committed, and so below each cut after a clean
        election. Where no row says how far a cleaner was, gaps are allowed in all that the log had at its start.
        """
        return max(self._parts.gaps.passed_below, self.cleaned_offset) > offset

    def begin_again(self, now_ms: int, why: str) -> str | None:
        """Keep the whole log aside and begin at its start. Returns the directory that has it. Raises `OSError`.

        A crash leaves the log as it was, or one that has lost its beginning, which is copied again, too.
        """
        start = self._parts.start.offset
        return quarantine_and_restart(
            self._parts, start, (), None, log_start_offset=start, now_ms=now_ms, reason=why, oldest_first=True
        )

    def expect_gaps(self, end_offset: int, limit_offset: int) -> bool:
        """Allow gaps below ``end_offset``. True if that is new: the caller stores it before a gap exists.

        They are allowed further at once, up to ``limit_offset``: all below is committed, see `has_passed`.
        """
        gaps = self._parts.gaps
        if gaps.are_kept_at_borders(end_offset):
            return False
        synced = min(self._parts.segments.active.base_offset, self._parts.cycles.flushed_offset)
        below = max(end_offset, min(synced, limit_offset))  # a tail that a power cut takes from a roll is no gap
        gaps.expect_at_borders(below)
        gaps.passed(below, self._parts.epochs.latest_epoch)
        return True

    def cleanable_segments(self) -> list[CleanableSegment]:
        """The frozen segments, oldest first, up to the first that is not wholly written, or missing. Raises `OSError`."""
        found = []
        asked = self._parts.place.config.max_compaction_lag_ms < _NEVER
        segments = self._parts.segments
        for number, segment in enumerate(segments):
            if not segment.frozen or segment.name_suffix or number + 1 == len(segments):
                break
            if segment.missing is not None:
                break  # records behind may be newer than the missing ones, whose older values must not come back
            found.append(
                CleanableSegment(
                    segment.base_offset,
                    segment.next_offset,
                    segment.size_bytes,
                    segment.max_timestamp.timestamp_ms,
                    _first_timestamp(segment) if asked else NO_TIMESTAMP,
                )
            )
        return found

    def clean_job(
        self,
        section: Section,
        *,
        now_ms: int,
        forgettable_below: int = LONG_MAX,
        map_bytes: int,
        map_load_factor: float,
    ) -> CleanJob:
        """The input of a cleaning of ``section``. Raises `OSError`.

        ``forgettable_below``: tombstones and markers below this offset may be dropped.
        """
        parts, config = self._parts, self._parts.place.config
        segments = tuple(one for one in self.cleanable_segments() if one.end_offset <= section.end_offset)
        return CleanJob(
            directory=parts.place.directory,
            generation=parts.cycles.generation,
            segments=segments,
            first_dirty_offset=section.first_dirty_offset,
            end_offset=section.end_offset,
            aborted=tuple(find_aborted(parts, parts.segments[0].base_offset, section.end_offset)),
            producers=parts.producers.to_bytes(),
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            forgettable_below=forgettable_below,
            epoch_starts=tuple(each.start_offset for each in parts.epochs.entries if each.epoch > 0),
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            map_bytes=map_bytes,
            map_load_factor=map_load_factor,
        )

    def is_as_it_was(self, job: CleanJob) -> bool:
        """Whether the log has not been cut since the job was made."""
        return job.generation == self._parts.cycles.generation

    def begin_replace(self, cleaned: CleanedSegment) -> SegmentSwap | None:
        """Prepare the swap. None if the old segments have changed (retention, a log begun anew).

        Then the owner carries out `SegmentSwap.stage`, `put_in` and `retire`, or after `SegmentSwap.withdraw` calls
        `withdrawn`. Between two steps the log may end the swap itself: see `is_pending`.
        Raises `OSError`.
        """
        end_swap(self._parts)
        number = self._number_of(cleaned)
        if number is None:
            return None
        place = self._parts.place
        old = self._parts.segments[number : number + len(cleaned.replaces)]
        segment = Segment(
            place.files,
            place.directory,
            cleaned.base_offset,
            place.config,
            place.cache,
            size_bytes=cleaned.size_bytes,
            next_offset=cleaned.end_offset,
            frozen=True,
            first_append_ms=old[-1].first_append_ms,
        )
        segment.name_suffix = SWAP
        self._swap_count += 1
        swap = SegmentSwap(place.files, place.directory, cleaned, old, segment, self._swap_count)
        self._parts.pending.swap = swap
        return swap

    def _number_of(self, cleaned: CleanedSegment) -> int | None:
        """The index of the first old segment; None if any of them has changed."""
        segments = self._parts.segments
        number = segments.floor(cleaned.base_offset)
        count = len(cleaned.replaces)
        if cleaned.generation != self._parts.cycles.generation:
            return None  # cut meanwhile: the same borders may hold other batches
        if number + count >= len(segments) or self._parts.tail.failed is not None:
            return None
        mine = [segments[number + index] for index in range(count)]
        same = tuple((one.base_offset, one.size_bytes) for one in mine) == cleaned.replaces
        return number if same and mine[-1].next_offset == cleaned.end_offset else None

    def put_in(self, swap: SegmentSwap) -> bool:
        """Let readers use the new segment. False if the old ones are gone; then call `SegmentSwap.withdraw`."""
        segments = self._parts.segments
        number = self._number_of(swap.cleaned)
        if number is None or segments[number] is not swap.old[0]:
            return False
        segments.replace(number, len(swap.old), swap.segment)
        for old in swap.old:
            self._parts.place.cache.drop(old)
        self._parts.gaps.cleaned = True
        swap.is_in = True
        return True

    def is_pending(self, swap: SegmentSwap) -> bool:
        """Whether the swap is still to be carried out: a cut may have ended it."""
        return self._parts.pending.swap is swap

    def withdrawn(self) -> None:
        """The swap does not count any more, and has left no files."""
        self._parts.pending.swap = None

    def retire(self, swap: SegmentSwap) -> Iterator[None]:
        """Take the old files' names away, and give the new files theirs. Raises `OSError`; then call it again.

        It yields as `SegmentSwap.retire`.
        """
        yield from swap.retire()
        finish_swap(self._parts, swap)


def _first_timestamp(segment: Segment) -> int:
    if segment.roll_timestamp_ms < 0 < segment.size_bytes:
        for _, header in scan_headers(segment.file, 0, segment.size_bytes, step_bytes=HEADER_BYTES):
            segment.roll_timestamp_ms = header.max_timestamp
            break
    return segment.roll_timestamp_ms
