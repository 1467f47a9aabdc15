"""Compaction as the log's owner sees it: what may be cleaned, and the change from old segments to a new one.

All of it is called on the owner's thread. Readers see the old segments or the new one, never a gap: both give the
same records from any offset on, less those that a later record supersedes.
"""

from __future__ import annotations

from typing import Final

from stratalog.hot.cleaner import CleanedSegment, CleanJob
from stratalog.hot.cleaner_plan import CleanableSegment, CleaningPolicy, Section
from stratalog.hot.cleaner_swap import SegmentSwap
from stratalog.hot.config import LONG_MAX
from stratalog.hot.log_truncate import LogTruncate
from stratalog.hot.scan import scan_headers
from stratalog.hot.segment import SWAP, Segment
from stratalog.wire.batch import HEADER_BYTES, NO_TIMESTAMP

__all__ = ["LogCompact"]

_NEVER: Final = LONG_MAX


class LogCompact(LogTruncate):
    """The half of a log that the cleaner needs."""

    __slots__ = ()

    @property
    def may_have_gaps(self) -> bool:
        """Whether offsets may be missing: the topic is compacted, or was."""
        return self.config.compacted or self.compacted_before

    @property
    def cleaning_policy(self) -> CleaningPolicy:
        """The topic's settings, as the cleaner asks for them."""
        config = self.config
        return CleaningPolicy(
            config.min_cleanable_dirty_ratio, config.min_compaction_lag_ms, config.max_compaction_lag_ms
        )

    def cleanable_segments(self) -> list[CleanableSegment]:
        """The frozen segments, oldest first, up to the first that is not wholly written. Raises `OSError`."""
        found = []
        asked = self.config.max_compaction_lag_ms < _NEVER
        for number, segment in enumerate(self._segments):
            if not segment.frozen or segment.name_suffix or number + 1 == len(self._segments):
                break
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
        """What a cleaning of ``section`` has to know of this log. Raises `OSError`.

        ``forgettable_below``: no tombstone or marker at or above this offset goes.
        """
        config = self.config
        segments = tuple(one for one in self.cleanable_segments() if one.end_offset <= section.end_offset)
        return CleanJob(
            directory=self.directory,
            segments=segments,
            first_dirty_offset=section.first_dirty_offset,
            end_offset=section.end_offset,
            aborted=tuple(self.aborted_transactions(self.first_base_offset, section.end_offset)),
            producers=self.producer_state.to_bytes(),
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            forgettable_below=forgettable_below,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            map_bytes=map_bytes,
            map_load_factor=map_load_factor,
        )

    def begin_replace(self, cleaned: CleanedSegment) -> SegmentSwap | None:
        """Prepare the swap; None if the old segments are not what they were (retention, a log begun anew).

        Then the owner carries out `SegmentSwap.stage`, `put_in`, `SegmentSwap.retire` and `finish_replace`. Raises
        `OSError`.
        """
        number = self._number_of(cleaned)
        if number is None:
            return None
        old = [self._segments[number + index] for index in range(len(cleaned.replaces))]
        segment = Segment(
            self._files,
            self.directory,
            cleaned.base_offset,
            self.config,
            self._cache,
            size_bytes=cleaned.size_bytes,
            next_offset=cleaned.end_offset,
            frozen=True,
            first_append_ms=old[-1].first_append_ms,
        )
        segment.name_suffix = SWAP
        self._replacement_count += 1
        return SegmentSwap(self._files, self.directory, cleaned, old, segment, self._replacement_count)

    def _number_of(self, cleaned: CleanedSegment) -> int | None:
        """Where the first of the old segments stands, if they all stand there as they were."""
        segments = self._segments
        number = segments.floor(cleaned.base_offset)
        count = len(cleaned.replaces)
        if number + count >= len(segments) or self._failed is not None:
            return None
        mine = [segments[number + index] for index in range(count)]
        same = tuple((one.base_offset, one.size_bytes) for one in mine) == cleaned.replaces
        return number if same and mine[-1].next_offset == cleaned.end_offset else None

    def put_in(self, swap: SegmentSwap) -> bool:
        """Read the new segment from now on; False if the old ones have gone, and `SegmentSwap.withdraw` is due."""
        number = self._number_of(swap.cleaned)
        if number is None or self._segments[number] is not swap.old[0]:
            return False
        self._segments.replace(number, len(swap.old), swap.segment)
        for old in swap.old:
            self._cache.drop(old)
        self.compacted_before = True
        return True

    def finish_replace(self, swap: SegmentSwap) -> None:
        """Give the new files their names, and the old ones up for removal. Raises `OSError`.

        Producer snapshots stay where a segment begins.
        """
        self._doomed += [(swap.doomed_paths(old), None) for old in swap.old]
        if swap.segment not in list(self._segments):
            return  # it was removed meanwhile, as `.swap`
        swap.settle()
        swap.segment.release()  # what opens it next opens it by its name
        self._directory_dirty = True
        self._remove_vanished_snapshots(swap)

    def _remove_vanished_snapshots(self, swap: SegmentSwap) -> None:
        for old in swap.old[1:]:
            if old.base_offset in self._snapshots:
                self._files.unlink(f"{self.directory}/{old.base_offset:020d}.snapshot")
                self._snapshots.remove(old.base_offset)


def _first_timestamp(segment: Segment) -> int:
    if segment.roll_timestamp_ms < 0 < segment.size_bytes:
        for _, header in scan_headers(segment.file, 0, segment.size_bytes, step_bytes=HEADER_BYTES):
            segment.roll_timestamp_ms = header.max_timestamp
            break
    return segment.roll_timestamp_ms
