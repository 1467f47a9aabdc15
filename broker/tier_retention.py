"""Where retention moves the log start of a tiered partition: by what is archived and what is local beyond, once each."""

from __future__ import annotations

from stratalog.broker.remote_reader import RemotePartition
from stratalog.broker.unified_log import UnifiedLog
from stratalog.hot.segment import SegmentInfo
from stratalog.tier.remote_log import RemoteLog
from stratalog.tier.remote_retention import RetainedRange, log_start_after_retention

__all__ = ["planned_log_start", "retained_bytes"]


def planned_log_start(unified: UnifiedLog, remote: RemotePartition, now_ms: int) -> int | None:
    """The log start that the topic's retention wants now, at or above the present one; nothing is changed.

    None while that is not known: the manifest has to be read first. Raises `OSError`, `Corrupt`.
    """
    log, config = unified.log, unified.log.config
    if not config.deletes or (config.retention_ms < 0 and config.retention_bytes < 0):
        return log.log_start_offset
    entries = remote.entries
    if entries is None and remote.end_offset > remote.start_offset:
        return None
    ranges = _archived(entries)
    end = ranges[-1].end if ranges else log.first_base_offset
    local = _local_beyond(unified, end)
    ranges += [
        RetainedRange(max(one.base_offset, end), one.end_offset, _bytes_beyond(unified, one, end), one.max_timestamp_ms)
        for one in local
        if not one.active
    ]
    return log_start_after_retention(
        ranges,
        log_start_offset=log.log_start_offset,
        high_watermark=unified.partition.high_watermark,
        active_bytes=sum(one.size_bytes for one in local if one.active),
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        now_ms=now_ms,
    )


def retained_bytes(unified: UnifiedLog, remote: RemotePartition) -> int:
    """Log bytes from the log start on that are archived or local beyond the archive; 0 while that is not known.

    Raises `OSError`, `Corrupt`.
    """
    entries = remote.entries
    if entries is None:
        return 0
    start = unified.log.log_start_offset
    archived = [one for one in _archived(entries) if one.end > start]
    end = archived[-1].end if archived else unified.log.first_base_offset
    return sum(one.size_bytes for one in archived) + sum(
        one.size_bytes if one.active else _bytes_beyond(unified, one, end) for one in _local_beyond(unified, end)
    )


def _archived(entries: RemoteLog | None) -> list[RetainedRange]:
    found = [] if entries is None else [entries.segment(index) for index in range(len(entries))]
    return [RetainedRange(one.base, one.end, one.data_bytes, one.max_timestamp_ms) for one in found]


def _local_beyond(unified: UnifiedLog, end: int) -> list[SegmentInfo]:
    return [one for one in unified.log.segments() if one.end_offset > end or one.active]


def _bytes_beyond(unified: UnifiedLog, segment: SegmentInfo, offset: int) -> int:
    """Bytes of a frozen segment from ``offset`` on, which need not be its first."""
    if segment.base_offset >= offset:
        return segment.size_bytes
    return unified.log.read_range(offset, segment.end_offset).size_bytes
