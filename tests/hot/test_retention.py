"""Tests of hot/retention.py."""

from stratalog.hot.config import LogConfig
from stratalog.hot.retention import local_segments_to_evict, segments_to_delete
from stratalog.hot.segments.segment import SegmentInfo

NOW_MS = 1_000_000
OF_2013 = 1_357_000_000_000


def segments(*newest_ms: int, size: int = 100) -> list[SegmentInfo]:
    """Segments of ten offsets each; the last is active."""
    last = len(newest_ms) - 1
    return [
        SegmentInfo(number * 10, number * 10 + 10, size, "", 0, stamp, number == last)
        for number, stamp in enumerate(newest_ms)
    ]


def delete(parts, config, *, log_start=0, high_watermark=10**9, now_ms=NOW_MS):
    return segments_to_delete(parts, config, now_ms=now_ms, log_start_offset=log_start, high_watermark=high_watermark)


def test_retention_removes_whole_segments_by_their_newest_record():
    """A segment with one unexpired record stays, and so does everything behind it."""
    config = LogConfig(retention_ms=1000)
    found = delete(segments(NOW_MS - 1001, NOW_MS - 1000, NOW_MS - 5000, NOW_MS), config)
    assert (found.offset, found.segment_count, found.roll_active) == (10, 1, False)
    assert delete(segments(NOW_MS - 1000, NOW_MS), config) is None


def test_an_expired_active_segment_is_frozen_first():
    """All records gone: the log goes on with an empty segment."""
    found = delete(segments(1, 2), LogConfig(retention_ms=1000))
    assert (found.offset, found.roll_active) == (20, True)
    empty = segments(1, 2, -1)
    empty[-1] = empty[-1]._replace(size_bytes=0)
    assert delete(empty, LogConfig(retention_ms=1000)).offset == 20


def test_a_range_that_the_disk_has_lost_goes_with_what_follows():
    """Other replicas may have its records, and take over the log start."""
    config = LogConfig(retention_ms=1000)

    def lost(*newest_ms):
        parts = segments(*newest_ms)
        return [one if one.max_timestamp_ms >= 0 else one._replace(size_bytes=0) for one in parts]

    assert delete(lost(-1, NOW_MS, NOW_MS), config) is None
    assert delete(lost(1, -1, NOW_MS, NOW_MS), config).offset == 10
    assert delete(lost(-1, -1, 1, NOW_MS), config).offset == 30


def test_records_of_2013_with_retention_off_stay():
    """retention.ms=-1 and retention.bytes=-1 keep everything for ever."""
    old = segments(OF_2013, OF_2013, OF_2013)
    assert delete(old, LogConfig(retention_ms=-1), now_ms=1_800_000_000_000) is None


def test_retention_by_size_keeps_at_least_that_much():
    """A segment goes only if the rest still holds retention.bytes."""
    config = LogConfig(retention_ms=-1, retention_bytes=250)
    assert delete(segments(1, 1, 1, 1), config).offset == 10
    assert delete(segments(1, 1, 1), config) is None
    assert delete(segments(1, 1, 1), LogConfig(retention_ms=-1, retention_bytes=0)).offset == 20


def test_no_segment_above_the_high_watermark_goes():
    """Data that replicas still fetch is not deleted."""
    assert delete(segments(1, 1, NOW_MS), LogConfig(retention_ms=1000), high_watermark=19).offset == 10


def test_segments_below_the_log_start_go_under_every_policy():
    """DeleteRecords moved the log start: compacted topics too."""
    config = LogConfig(retention_ms=-1, cleanup_policy=frozenset({"compact"}))
    assert delete(segments(1, 1, 1), config, log_start=20).offset == 20
    assert delete(segments(1, 1, 1), config, log_start=19).offset == 10
    assert delete(segments(1, 1, 1), config) is None


def test_local_retention_never_passes_the_evictable_offset():
    """By time, by size and below the log start alike."""
    old = segments(1, 1, 1, 1)

    def evict(config, evictable, log_start=0):
        return local_segments_to_evict(
            old, config, now_ms=NOW_MS, log_start_offset=log_start, evictable_offset=evictable
        )

    by_time = LogConfig(local_retention_ms=10)
    assert evict(by_time, 0) is None
    assert evict(by_time, 19).offset == 10
    assert evict(by_time, 10**6).offset == 30
    by_size = LogConfig(local_retention_ms=-1, local_retention_bytes=0)
    assert evict(by_size, 25).offset == 20
    neither = LogConfig(retention_ms=-1)
    assert evict(neither, 40) is None
    assert evict(neither, 15, log_start=40).offset == 10
