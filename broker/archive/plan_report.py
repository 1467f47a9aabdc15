"""Reports the next steps of a partition's archive and their reasons, by the functions that decide; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from msgspec import Struct, to_builtins

from stratalog.broker.archive.partition_archive import Archive
from stratalog.broker.archive.retention import planned_log_start
from stratalog.broker.archive.seal_times import copy_lag_of
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.hot.retention import local_segments_to_evict
from stratalog.tier.planning.copy_lag import waits_for
from stratalog.tier.planning.prices import NOTHING_USED, Usage
from stratalog.tier.planning.upload_cost import removal_usage, upload_usage
from stratalog.wire.errors import Corrupt

__all__ = ["PlannedStep", "planned_steps"]

_STATES: Final = {
    "checking": "the archive is being compared with the local log",
    "quarantined": "a local segment is damaged: see the log",
    "fenced": "another leader owns the archive",
    "lost": "the bucket does not hold the archive: see the log",
}
"""States of an archive without uploads."""


class PlannedStep(Struct, frozen=True):
    """One step: ``upload``, ``wait`` (an upload that is not due), ``evict`` (local files), ``delete`` (from the
    archive into its trash), ``trash`` (what lies there and goes once its grace is over).

    It concerns ``count`` segments or objects with the offsets ``[start, end)`` and ``size_bytes``.
    """

    topic: str
    partition: int
    action: str
    start: int
    end: int
    count: int
    size_bytes: int
    why: str
    usage: Usage = NOTHING_USED

    def fields(self) -> dict[str, Any]:
        """As JSON."""
        return cast("dict[str, Any]", to_builtins(self))


def planned_steps(unified: UnifiedLog, archive: Archive, state: str, now_ms: int) -> list[PlannedStep]:
    """The steps of one partition that is led here, in the order upload, evict, delete, trash. Raises `OSError`."""
    return [
        *_uploads(unified, archive, state, now_ms),
        *_eviction(unified, archive, now_ms),
        *_deletion(unified, archive, now_ms),
        *_trash(unified, archive),
    ]


def _step(unified: UnifiedLog, action: str, offsets: tuple[int, int], count: int, size_bytes: int, why: str,
          usage: Usage = NOTHING_USED) -> PlannedStep:  # fmt: skip
    topic, partition = unified.topic_partition
    return PlannedStep(topic, partition, action, *offsets, count, size_bytes, why, usage)


def _uploads(unified: UnifiedLog, archive: Archive, state: str, now_ms: int) -> Iterator[PlannedStep]:
    """The sealed segments that are not archived, each with why it goes or waits."""
    log, part = unified.log, unified.partition
    lag = copy_lag_of(log.config)
    remote_end = archive.remote.end_offset
    limits = {
        "high watermark": part.high_watermark,
        "last stable offset (an open transaction)": part.last_stable_offset,
        "flushed offset": log.flushed_offset,
    }
    segments = archive.seals.waiting(log, remote_end)
    behind_bytes = sum(one.size_bytes for one in log.segments() if one.active or one.end_offset > remote_end)
    start, held = max(remote_end, log.first_base_offset), _held_back(unified, state)
    for one in segments:
        behind_bytes -= one.size_bytes
        above = next((name for name, limit in limits.items() if one.end > limit), None)
        held = held or (f"above the {above}" if above else waits_for(one, behind_bytes, lag, now_ms))
        if held is None:
            usage = upload_usage(one.size_bytes, log.config.upload_part_bytes)
            yield _step(unified, "upload", (start, one.end), 1, one.size_bytes, "sealed, stable and on disk", usage)
        else:
            yield _step(unified, "wait", (start, one.end), 1, one.size_bytes, held)
            held = "behind one that waits"
        start = one.end


def _held_back(unified: UnifiedLog, state: str) -> str | None:
    config = unified.log.config
    if not config.remote_storage_enable:
        return "remote.storage.enable=false"
    if config.remote_copy_disable:
        return "remote.log.copy.disable=true"
    return _STATES.get(state)


def _eviction(unified: UnifiedLog, archive: Archive, now_ms: int) -> Iterator[PlannedStep]:
    log = unified.log
    segments = log.segments()
    deletion = local_segments_to_evict(
        segments,
        log.config,
        now_ms=now_ms,
        log_start_offset=log.log_start_offset,
        evictable_offset=archive.evictable_offset,
    )
    if deletion is not None:
        going = segments[: deletion.segment_count]
        size_bytes = sum(one.size_bytes for one in going)
        offsets = (going[0].base_offset, deletion.offset)
        yield _step(unified, "evict", offsets, len(going), size_bytes, f"archived, and {deletion.reason}")


def _deletion(unified: UnifiedLog, archive: Archive, now_ms: int) -> Iterator[PlannedStep]:
    log, entries = unified.log, archive.remote.entries
    try:
        start = planned_log_start(unified, archive.remote, now_ms)
    except Corrupt as error:
        yield _step(unified, "wait", (log.log_start_offset, log.log_start_offset), 0, 0, f"retention: {error}")
        return
    if start is None:
        why = "retention: the manifest's entries are being read; ask again"
        yield _step(unified, "wait", (log.log_start_offset, log.log_start_offset), 0, 0, why)
        archive.remote.refresh()
        return
    if start <= log.log_start_offset:
        return
    count = size_bytes = 0
    if entries is not None:
        before, kept = (entries.retained(offset) for offset in (log.log_start_offset, start))
        count = sum(1 for one in before[0] if one.end <= start)
        size_bytes = before[1] - kept[1]
    config = log.config
    why = f"retention.ms={config.retention_ms}, retention.bytes={config.retention_bytes}; the trash keeps it for its grace"
    offsets = (log.log_start_offset, start)
    yield _step(unified, "delete", offsets, count, size_bytes, why, removal_usage(count))


def _trash(unified: UnifiedLog, archive: Archive) -> Iterator[PlannedStep]:
    """The steps for objects that are in the trash already."""
    facts, start = archive.remote.facts, unified.log.log_start_offset
    if facts is not None and facts.trash_count:
        why = "goes after stratalog.trash.grace.ms, if no lease, job or cut needs it"
        yield _step(
            unified,
            "trash",
            (start, start),
            facts.trash_count,
            facts.trash_bytes,
            why,
            removal_usage(facts.trash_count),
        )
