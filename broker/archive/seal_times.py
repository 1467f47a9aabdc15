"""Remembers when the segments of a log were sealed, and says which of them the topic's lags let upload."""

from __future__ import annotations

from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.segments.segment import SegmentInfo
from stratalog.tier.planning.copy_lag import NO_END, CopyLag, SealedSegment, eligible_end

__all__ = ["SealTimes", "copy_lag_of"]


def copy_lag_of(config: LogConfig) -> CopyLag:
    """The lags of a topic."""
    return CopyLag(
        age_ms=config.effective_copy_lag_ms,
        behind_bytes=config.effective_copy_lag_bytes,
        sealed_ms=config.upload_lag_ms,
        local_bytes=config.effective_local_retention_bytes,
    )


class SealTimes:
    """Kept in memory for one leadership.

    A segment that was sealed before counts from its first append, or, after a restart, from its file's last change:
    restarts never put an upload off.
    """

    def __init__(self, end: int = 0) -> None:
        """Segments that end at ``end`` or below are none of the new ones."""
        self.end = end
        self._sealed_ms: dict[int, int] = {}  # by end offset, in order
        self._looked = False

    def news(self, log: Log, now_ms: int) -> list[SegmentInfo]:
        """The segments that were sealed since the last call, in order; cheap where there are none."""
        if log.active_base_offset <= self.end:
            return []
        found = [one for one in log.segments() if not one.active and one.end_offset > self.end]
        for segment in found:
            self.end = segment.end_offset
            self.saw(segment, now_ms)
        return found

    def saw(self, segment: SegmentInfo, now_ms: int) -> None:
        """``segment`` is sealed, and was not when the log was looked at before."""
        before = segment.first_append_ms if not self._looked and segment.first_append_ms >= 0 else now_ms
        self._sealed_ms[segment.end_offset] = before

    def waiting(self, log: Log, remote_end: int) -> list[SealedSegment]:
        """The sealed segments that are not archived up to ``remote_end``, in order."""
        return [
            SealedSegment(
                one.end_offset,
                one.size_bytes,
                one.max_timestamp_ms,
                self._sealed_ms.get(one.end_offset, one.first_append_ms),
            )
            for one in log.segments()
            if not one.active and one.end_offset > remote_end
        ]

    def eligible_end(self, log: Log, remote_end: int, now_ms: int) -> int:
        """The offset below which all sealed segments may be uploaded now; cheap without a lag.

        Forgets the times of segments that are archived, or are no longer on the disk.
        """
        self._looked = True
        gone = max(remote_end, log.first_base_offset)
        while self._sealed_ms and (first := next(iter(self._sealed_ms))) <= gone:
            del self._sealed_ms[first]
        lag = copy_lag_of(log.config)
        if lag.is_none:
            return NO_END
        active_bytes = sum(one.size_bytes for one in log.segments() if one.active)
        return eligible_end(self.waiting(log, remote_end), active_bytes, lag, now_ms)
