"""Computes where retention moves the log start of a tiered partition, and which local segments may go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, takewhile

from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.hot.log.log import Log
from stratalog.hot.retention import local_segments_to_evict
from stratalog.hot.segments.scan import UnreadableBatch
from stratalog.hot.segments.segment import SegmentInfo
from stratalog.tier.planning.remote_retention import RetainedRange, log_start_after_retention
from stratalog.tier.reading.remote_log import RemoteLog
from stratalog.wire.errors import Corrupt

__all__ = ["evict_local", "has_files_below_start", "planned_log_start", "reporting_disk", "retained_bytes"]


def planned_log_start(unified: UnifiedLog, remote: RemotePartition, now_ms: int) -> int | None:
    """The log start that the topic's retention asks for now, at or above the present one; changes nothing.

    None while that is not known: the manifest has to be read first. Raises `OSError`, `Corrupt`.
    """
    log, config = unified.log, unified.log.config
    if not config.deletes or (config.retention_ms < 0 and config.retention_bytes < 0):
        return log.log_start_offset
    entries = remote.entries
    # A leader that has taken over may know nothing of an archive: its log begins below its disk, then.
    archived = remote.end_offset > remote.start_offset or log.log_start_offset < log.first_base_offset
    if entries is None and archived:
        return None if _may_be_due(unified, remote, now_ms) else log.log_start_offset
    end = _archived_end(unified, remote)
    ranges, total_bytes = _archived(entries, log.log_start_offset, end)
    local = _local_beyond(unified, end)
    beyond = [
        RetainedRange(max(one.base_offset, end), one.end_offset, _bytes_beyond(unified, one, end), _newest_ms(one))
        for one in local
        if not one.active
    ]
    return log_start_after_retention(
        chain(ranges, beyond),
        log_start_offset=log.log_start_offset,
        high_watermark=unified.partition.high_watermark,
        total_bytes=total_bytes
        + sum(one.size_bytes for one in beyond if one.end > log.log_start_offset)
        + sum(one.size_bytes for one in local if one.active),
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        now_ms=now_ms,
    )


def _newest_ms(segment: SegmentInfo) -> int:
    """The newest time in a segment; of records without one that of the first append, as in a topic without an archive."""
    known = segment.max_timestamp_ms >= 0 or not segment.size_bytes
    return segment.max_timestamp_ms if known else segment.first_append_ms


def _may_be_due(unified: UnifiedLog, remote: RemotePartition, now_ms: int) -> bool:
    """True if retention may have to move the log start, by the facts known without the entries, or without any."""
    config, facts = unified.log.config, remote.facts
    if facts is None:
        return True
    if config.retention_ms >= 0 and facts.oldest_timestamp_ms < now_ms - config.retention_ms:
        return True  # also where the oldest range has no known time
    local_bytes = sum(one.size_bytes for one in _local_beyond(unified, remote.end_offset))
    return 0 <= config.retention_bytes < facts.totals.size_bytes + local_bytes


def retained_bytes(unified: UnifiedLog, remote: RemotePartition) -> int:
    """Log bytes from the log start on that are archived or local beyond the archive; 0 while that is not known.

    Raises `OSError`, `Corrupt`.
    """
    entries = remote.entries
    if entries is None:
        return 0
    end = _archived_end(unified, remote)
    _, total_bytes = _archived(entries, unified.log.log_start_offset, end)
    return total_bytes + sum(
        one.size_bytes if one.active else _bytes_beyond(unified, one, end) for one in _local_beyond(unified, end)
    )


def _archived(entries: RemoteLog | None, log_start_offset: int, end: int) -> tuple[Iterable[RetainedRange], int]:
    """The archived ranges below ``end`` that end behind the log start, and the bytes of all of them.

    An object that reaches across ``end`` counts with the part of its bytes that its offsets below are.
    """
    if entries is None:
        return (), 0
    ranges, total_bytes = entries.retained(log_start_offset)
    if entries.remote_end <= end:
        return ranges, total_bytes
    below = [_part_below(one, end) for one in takewhile(lambda one: one.base < end, ranges)]
    below = [one for one in below if one.end > log_start_offset]
    return below, sum(one.size_bytes for one in below)


def _part_below(one: RetainedRange, end: int) -> RetainedRange:
    if one.end <= end:
        return one
    return one._replace(end=end, size_bytes=one.size_bytes * (end - one.base) // (one.end - one.base))


def _archived_end(unified: UnifiedLog, remote: RemotePartition) -> int:
    """The offset from which records are only local."""
    entries = remote.entries
    return remote.end_offset if entries is not None and len(entries) else unified.log.first_base_offset


def _local_beyond(unified: UnifiedLog, end: int) -> list[SegmentInfo]:
    return [one for one in unified.log.segments() if one.end_offset > end or one.active]


def _bytes_beyond(unified: UnifiedLog, segment: SegmentInfo, offset: int) -> int:
    """Bytes of a frozen segment from ``offset`` on, which need not be its first."""
    if segment.base_offset >= offset or not segment.size_bytes:
        return segment.size_bytes
    return unified.log.read_range(offset, segment.end_offset).size_bytes


def has_files_below_start(log: Log) -> bool:
    """Whether the log starts above its first segment, which nothing but its files needs any more. Raises `OSError`."""
    first, *others = log.segments()
    return bool(others) and first.end_offset <= log.log_start_offset


@contextmanager
def reporting_disk(unified: UnifiedLog) -> Iterator[None]:
    """Have a disk that fails in here go offline, and a damaged segment set aside: neither is raised.

    Segments that were sealed in an earlier run are looked at for the first time here, by many partitions in one turn.
    """
    try:
        try:
            yield
        except UnreadableBatch as damage:
            unified.missing_after(damage)
    except OSError as error:
        unified.partition.directory.report(error)
    except Corrupt:
        return  # of the active segment: its readers report it


def evict_local(unified: UnifiedLog, evictable_offset: int, now_ms: int) -> bool:
    """Delete local segments that are safely archived and beyond local retention. True if any went.

    A disk that fails goes offline.
    """
    log_ = unified.log
    try:
        deletion = local_segments_to_evict(
            log_.segments(),
            log_.config,
            now_ms=now_ms,
            log_start_offset=log_.log_start_offset,
            evictable_offset=evictable_offset,
        )
        return deletion is not None and bool(log_.delete_local_before(deletion.offset))
    except OSError as error:
        unified.partition.directory.report(error)
        return False
