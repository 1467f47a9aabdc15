"""Which whole segments may leave the local disk. Pure.

Two questions with one shape of answer: everything below an offset may go. For a topic without an archive the
policy is ``retention.*`` and the data is gone with the segment. For a tiered topic it is ``local.retention.*``,
and nothing at or above the evictable offset may go: what the archive provably holds ends there.
Source: Kafka's ``UnifiedLog.deleteOldSegments``, KIP-405.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stratalog.hot.config import LogConfig
from stratalog.hot.segments.segment import SegmentInfo

__all__ = ["Deletion", "local_segments_to_evict", "segments_to_delete"]


class Deletion(NamedTuple):
    """Delete the segments wholly below ``offset``; first freeze the active one if ``roll_active``."""

    offset: int
    segment_count: int
    roll_active: bool
    reason: str


def segments_to_delete(
    segments: Sequence[SegmentInfo], config: LogConfig, *, now_ms: int, log_start_offset: int, high_watermark: int
) -> Deletion | None:
    """The segments that ``cleanup.policy=delete`` and the log start remove from a log without an archive.

    Oldest first, and never a segment that reaches above the high watermark. Whole segments only, by the newest
    record time in them: one unexpired record keeps its segment. None if nothing may go.
    """
    best: Deletion | None = None
    by_start = _below(segments, log_start_offset, "the log start moved above it")
    candidates = [by_start]
    if config.deletes:
        candidates.append(_expired(segments, config.retention_ms, now_ms, high_watermark, "retention.ms"))
        candidates.append(_oversized(segments, config.retention_bytes, high_watermark, "retention.bytes"))
    for candidate in candidates:
        if candidate is not None and (best is None or candidate.offset > best.offset):
            best = candidate
    return best


def local_segments_to_evict(
    segments: Sequence[SegmentInfo], config: LogConfig, *, now_ms: int, log_start_offset: int, evictable_offset: int
) -> Deletion | None:
    """The segments that local retention removes from a tiered topic: only those wholly below ``evictable_offset``.

    The active segment always stays: it is not archived. None if nothing may go.
    """
    frozen = [segment for segment in segments if not segment.active]
    best: Deletion | None = None
    for candidate in (
        _below(frozen, min(log_start_offset, evictable_offset), "the log start moved above it"),
        _expired(frozen, config.effective_local_retention_ms, now_ms, evictable_offset, "local.retention.ms"),
        _oversized(segments, config.effective_local_retention_bytes, evictable_offset, "local.retention.bytes"),
    ):
        if candidate is not None and (best is None or candidate.offset > best.offset):
            best = candidate
    return best


def _deletion(segments: Sequence[SegmentInfo], count: int, reason: str) -> Deletion | None:
    if count == 0:
        return None
    last = segments[count - 1]
    return Deletion(last.end_offset, count, last.active, reason)


def _below(segments: Sequence[SegmentInfo], offset: int, reason: str) -> Deletion | None:
    count = 0
    for segment in segments:
        if segment.active or segment.end_offset > offset:
            break
        count += 1
    return _deletion(segments, count, reason)


def _expired(
    segments: Sequence[SegmentInfo], retention_ms: int, now_ms: int, limit_offset: int, name: str
) -> Deletion | None:
    if retention_ms < 0:
        return None
    count = 0
    for number, segment in enumerate(segments, 1):
        if segment.end_offset > limit_offset:
            break
        if segment.size_bytes == 0:
            if segment.active:
                break
            continue  # a range that the disk has lost: no time is known, so it is taken to be as old as what follows
        newest_ms = segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.first_append_ms
        if now_ms - newest_ms <= retention_ms:
            break
        count = number
    return _deletion(segments, count, f"{name}={retention_ms}")


def _oversized(segments: Sequence[SegmentInfo], retention_bytes: int, limit_offset: int, name: str) -> Deletion | None:
    if retention_bytes < 0:
        return None
    excess = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    for segment in segments:
        if segment.active or segment.end_offset > limit_offset or excess - segment.size_bytes < 0:
            break
        excess -= segment.size_bytes
        count += 1
    return _deletion(segments, count, f"{name}={retention_bytes}")
