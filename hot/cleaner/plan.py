"""Which part of a compacted log may be cleaned, whether that is worth it, and which segments become one. Pure.

.. code-block:: text

    first segment ...... first dirty offset ...... end of the section ...... active segment
    |-- cleaned before, ratio's divisor --|-- dirty --|-- too young, undecided or active --|

Sources: Kafka's ``LogCleanerManager`` and ``Cleaner.groupSegmentsBySize``, KIP-58, KIP-354.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

__all__ = ["CleanableSegment", "CleaningPolicy", "Section", "cleanable_section", "dirtiest", "grouped"]

_RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF


class CleanableSegment(NamedTuple):
    """A frozen, written segment. ``end_offset`` is exclusive: the next one's base."""

    base_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int
    first_timestamp_ms: int
    """The largest time in its first batch; only asked for where ``max.compaction.lag.ms`` is set, else -1."""
    offset_index_bytes: int = 0
    time_index_bytes: int = 0


class CleaningPolicy(NamedTuple):
    """The settings that decide, under the names of Kafka's topic configuration."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


class Section(NamedTuple):
    """The offsets that a cleaning would read: keys of ``[first_dirty_offset, end_offset)``, and the segments below."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """A dirty record has waited for longer than ``max.compaction.lag.ms``."""

    @property
    def dirty_ratio(self) -> float:
        """The share of what is dirty, 0 in an empty section."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    def is_due(self, policy: CleaningPolicy) -> bool:
        """Whether to clean now: at a ratio *above* the setting, or overdue."""
        if self.dirty_bytes <= 0:
            return False
        return self.overdue or self.dirty_ratio > policy.min_cleanable_dirty_ratio


def cleanable_section(
    segments: Sequence[CleanableSegment],
    policy: CleaningPolicy,
    *,
    cleaned_offset: int | None,
    log_start_offset: int,
    log_end_offset: int,
    limit_offset: int,
    now_ms: int,
) -> Section | None:
    """The section that may be cleaned now; None if there is no whole segment in it.

    ``segments`` are the frozen ones, oldest first. ``cleaned_offset`` is what the checkpoint says: below the log start
    or above the log end it is void. ``limit_offset`` is the last stable offset, of a tiered topic also the remote end.
    """
    if not segments:
        return None
    start = max(log_start_offset, segments[0].base_offset)
    first_dirty = start if cleaned_offset is None or not start <= cleaned_offset <= log_end_offset else cleaned_offset
    end = first_dirty
    too_young_ms = now_ms - policy.min_compaction_lag_ms
    for segment in segments:
        if segment.end_offset <= first_dirty:
            continue
        young = policy.min_compaction_lag_ms > 0 and segment.max_timestamp_ms > too_young_ms
        if young or segment.end_offset > limit_offset:
            break
        end = segment.end_offset
    if end <= first_dirty:
        return None
    dirty = [one for one in segments if one.end_offset > first_dirty and one.base_offset < end]
    return Section(
        first_dirty,
        end,
        sum(one.size_bytes for one in segments if one.base_offset < first_dirty),
        sum(one.size_bytes for one in dirty),
        _overdue([one for one in segments if one.end_offset > first_dirty], policy, now_ms),
    )


def _overdue(dirty: Iterable[CleanableSegment], policy: CleaningPolicy, now_ms: int) -> bool:
    times = [segment.first_timestamp_ms for segment in dirty if segment.first_timestamp_ms > 0]
    return min(times, default=now_ms) < now_ms - policy.max_compaction_lag_ms


def dirtiest(sections: Sequence[Section], policies: Sequence[CleaningPolicy]) -> int | None:
    """The number of the section to clean next: due, and the largest share of it is dirty; None if none is due."""
    due = [number for number, section in enumerate(sections) if section.is_due(policies[number])]
    return max(due, key=lambda number: sections[number].dirty_ratio, default=None)


def grouped(
    segments: Iterable[CleanableSegment], *, segment_bytes: int, index_bytes: int
) -> list[list[CleanableSegment]]:
    """Neighbours that may become one segment: as large together as one may be, in bytes, in index and in offsets."""
    groups: list[list[CleanableSegment]] = []
    for segment in segments:
        if groups and _fits(groups[-1], segment, segment_bytes, index_bytes):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(group: list[CleanableSegment], segment: CleanableSegment, segment_bytes: int, index_bytes: int) -> bool:
    together = [*group, segment]
    return (
        sum(one.size_bytes for one in together) <= segment_bytes
        and sum(one.offset_index_bytes for one in together) <= index_bytes
        and sum(one.time_index_bytes for one in together) <= index_bytes
        and segment.end_offset - 1 - group[0].base_offset <= _RELATIVE_OFFSET_MAX
    )
