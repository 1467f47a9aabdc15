"""How far retention moves the log start of a tiered topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.planning.remote_retention import RetainedRange, log_start_after_retention

RANGES = [RetainedRange(10 * n, 10 * n + 10, 100, 1000 + n) for n in range(5)]


def start(ranges=RANGES, **limits):
    known = {
        "log_start_offset": 0,
        "high_watermark": 1000,
        "retention_ms": -1,
        "retention_bytes": -1,
        "now_ms": 10_000,
    } | limits
    active_bytes = known.pop("active_bytes", 0)
    total_bytes = sum(one.size_bytes for one in ranges if one.end > known["log_start_offset"]) + active_bytes
    return log_start_after_retention(iter(ranges), total_bytes=total_bytes, **known)


def test_without_limits_nothing_goes():
    """-1 is no limit."""
    assert start() == 0


def test_time_goes_by_the_newest_record_and_stops_at_the_first_that_stays():
    """A range that is young enough keeps all behind it, however old."""
    assert start(retention_ms=8_998) == 20
    assert start([RANGES[0]._replace(max_timestamp_ms=9_999), *RANGES[1:]], retention_ms=100) == 0
    assert start(retention_ms=0) == 50
    assert start([RANGES[0]._replace(max_timestamp_ms=-1)], retention_ms=0) == 0


def test_a_range_without_a_time_is_as_old_as_what_follows():
    """A disk has lost its records for good, say. It would keep all behind it for ever."""
    first, second, *others = RANGES
    unknown = first._replace(max_timestamp_ms=-1)
    assert start([unknown, second, *others], retention_ms=8_998) == 20
    assert start([unknown, second._replace(max_timestamp_ms=-1), *others], retention_ms=8_997) == 30
    assert start([unknown, second._replace(max_timestamp_ms=9_999), *others], retention_ms=100) == 0
    assert start([first, second._replace(max_timestamp_ms=-1)], retention_ms=0) == 10
    assert start([unknown, second, *others], retention_ms=8_998, high_watermark=15) == 0
    assert start([unknown, second, *others], retention_bytes=300) == 20
    assert start([unknown, second, *others], retention_bytes=450) == 0


def test_size_keeps_at_least_what_was_asked_for():
    """A range goes only if what is left is no less than the limit; the active segment counts."""
    assert start(retention_bytes=300) == 20
    assert start(retention_bytes=301) == 10
    assert start(retention_bytes=300, active_bytes=99) == 20
    assert start(retention_bytes=300, active_bytes=100) == 30
    assert start(retention_bytes=0) == 50
    assert start(retention_bytes=2**63 - 1) == 0


def test_a_huge_time_is_no_overflow():
    """Long.MAX of a Java client is a limit that nothing meets."""
    assert start(retention_ms=2**63 - 1) == 0


def test_ranges_below_the_log_start_do_not_count():
    """Neither its bytes nor its times; the log start never goes back."""
    assert start(log_start_offset=20, retention_bytes=300) == 20
    assert start(log_start_offset=25, retention_bytes=200) == 30
    assert start(log_start_offset=60, retention_bytes=0) == 60


def test_no_segment_above_the_high_watermark_goes():
    """A range goes whole or not at all."""
    assert start(retention_ms=0, high_watermark=29) == 20


@pytest.mark.story
@given(
    sizes=st.lists(st.integers(1, 50), max_size=12),
    active=st.integers(0, 60),
    limit=st.integers(0, 400),
    moved=st.integers(0, 130),
)
def test_the_size_rule_is_the_largest_cut_that_leaves_the_limit(sizes, active, limit, moved):
    """Compared with a search over all cuts."""
    ranges = [RetainedRange(10 * n, 10 * n + 10, size, 0) for n, size in enumerate(sizes)]
    kept = [one for one in ranges if one.end > moved]
    expected = moved
    for count in range(len(kept) + 1):
        left = sum(one.size_bytes for one in kept[count:]) + active
        if count and left >= limit:
            expected = kept[count - 1].end
    found = start(ranges, log_start_offset=moved, retention_bytes=limit, active_bytes=active)
    assert found == expected
