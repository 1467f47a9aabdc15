"""When segments were sealed, as far as a leadership saw."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stratalog.broker.archive.seal_times import SealTimes, copy_lag_of
from stratalog.hot.config import LogConfig
from stratalog.hot.segments.segment import SegmentInfo
from stratalog.tier.planning.copy_lag import NO_END, CopyLag


def info(base: int, *, active: bool = False, first_append_ms: int = 500) -> SegmentInfo:
    return SegmentInfo(base, base + 10, 100, "x", first_append_ms, 0, active)


def log(config: LogConfig, *segments: SegmentInfo) -> Any:
    return SimpleNamespace(config=config, first_base_offset=0, segments=lambda: list(segments))


def test_segments_sealed_before_count_from_their_first_append() -> None:
    """A seal counts from the moment it is seen."""
    config = LogConfig(upload_lag_ms=1000)
    segments = [info(0), info(10)]
    times = SealTimes()
    times.saw(segments[0], 2000)
    held = log(config, *segments, info(20, active=True))
    assert times.eligible_end(held, 0, 1400) == 0
    times.saw(segments[1], 2000)
    assert times.eligible_end(held, 0, 1500) == 10
    assert times.eligible_end(held, 0, 2999) == 10
    assert times.eligible_end(held, 0, 3000) == NO_END


def test_archived_segments_hold_nothing_back() -> None:
    """Even if a lag was set afterwards."""
    config = LogConfig(upload_lag_ms=1000)
    times = SealTimes()
    held = log(config, info(0), info(10, active=True))
    times.saw(info(0, first_append_ms=-1), 2000)
    assert times.eligible_end(held, 0, 2500) == 0
    assert times.eligible_end(held, 10, 2500) == NO_END


def test_without_a_lag_segments_are_not_even_looked_at() -> None:
    """The default costs nothing."""
    unread = SimpleNamespace(config=LogConfig(), first_base_offset=0)
    assert SealTimes().eligible_end(unread, 0, 0) == NO_END  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [LogConfig(), LogConfig(upload_lag_ms=10**6)], ids=["no lag", "a lag"])
@pytest.mark.parametrize("copied", [True, False])
def test_times_of_segments_that_are_archived_or_gone_are_forgotten(config: LogConfig, copied: bool) -> None:
    """A leadership may last for years, and copying may be switched off meanwhile."""
    times = SealTimes()
    for base in range(0, 1000, 10):
        held = log(config, info(base), info(base + 10, active=True))
        held.first_base_offset = base
        times.saw(info(base), base)
        times.eligible_end(held, base if copied else 0, base)
        assert list(times._sealed_ms) == [base + 10]


def test_minus_one_is_local_retention() -> None:
    """And that may itself be retention."""
    config = LogConfig(remote_copy_lag_ms=-1, retention_ms=7, retention_bytes=9, upload_lag_ms=3)
    assert copy_lag_of(config) == CopyLag(7, 9, 3, 9)
    config = LogConfig(remote_copy_lag_ms=-1, local_retention_ms=5, local_retention_bytes=6)
    assert copy_lag_of(config) == CopyLag(5, 6, 0, 6)
    assert copy_lag_of(LogConfig()).is_none


def test_each_sealed_segment_is_news_once():
    """The segments are not walked while the active segment is the same."""
    segments = [SimpleNamespace(active=False, end_offset=end, first_append_ms=0) for end in (10, 20)]
    active = SimpleNamespace(active=True, end_offset=25)
    log = SimpleNamespace(active_base_offset=20, segments=lambda: [*segments, active])
    times = SealTimes(10)
    assert times.news(log, 5) == segments[1:]  # type: ignore[arg-type]
    log.segments = None
    assert times.news(log, 6) == []  # type: ignore[arg-type]
