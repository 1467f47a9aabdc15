"""The part of a log that lies beyond its archive: bytes that wait for the
bucket, and since when data is on this disk only.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.wire.topic import TopicPartition

__all__ = ["Beyond", "BeyondArchive"]


class Beyond(NamedTuple):
    """Segments beyond the remote end: count, bytes, since when they wait, and since when data is on this disk only (ms)."""

    waiting_segments: int = 0
    waiting_bytes: int = 0
    waiting_since_ms: int | None = None
    risk_since_ms: int | None = None


class _Borders(NamedTuple):
    """The offsets that decide about `Beyond`."""

    local_start: int
    active_start: int
    remote_end: int
    due_end: int
    anything: bool


class BeyondArchive:
    """Computes `Beyond` of each log; walks its segments only if a border has moved."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, tuple[_Borders, Beyond]] = {}

    def of(self, unified: UnifiedLog, remote_end: int, due_end: int) -> Beyond:
        """Frozen segments below ``due_end`` wait for the bucket; no copy lag holds them back."""
        log_, key = unified.log, unified.topic_partition
        borders = _Borders(
            log_.first_base_offset, log_.active_base_offset, remote_end, due_end, log_.log_end_offset > remote_end
        )
        known = self._known.get(key)
        if known is not None and known[0] == borders:
            return known[1]
        try:
            beyond = [one for one in log_.segments() if one.end_offset > remote_end]
        except OSError:
            return Beyond()  # the log's own readers report it
        waiting = [one for one in beyond if not one.active and one.end_offset <= due_end]
        found = Beyond(
            len(waiting),
            sum(one.size_bytes for one in waiting),
            _time(waiting[0].first_append_ms) if waiting else None,
            _time(beyond[0].first_append_ms) if beyond else None,
        )
        self._known[key] = (borders, found)
        return found

    def keep(self, present: AbstractSet[TopicPartition]) -> None:
        """Forget all partitions but these."""
        for key in self._known.keys() - present:
            del self._known[key]


def _time(value_ms: int) -> int | None:
    return value_ms if value_ms >= 0 else None
