"""Which sealed segments are old enough to be uploaded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.planning.copy_lag import AT_ONCE, NO_END, CopyLag, SealedSegment, eligible_end

NOW = 1_000_000
SEGMENTS = [SealedSegment(10 * n, 100, NOW - 1000 * (4 - n), NOW - 900 * (4 - n)) for n in (1, 2, 3)]
"""Three of 100 bytes: newest records 3, 2 and 1 s old, sealed 2.7, 1.8 and 0.9 s ago."""


@pytest.mark.parametrize(
    ("lag", "end"),
    [
        (AT_ONCE, NO_END),
        (CopyLag(age_ms=0, behind_bytes=500), NO_END),
        (CopyLag(age_ms=5000, behind_bytes=0), NO_END),
        (CopyLag(age_ms=1000), NO_END),
        (CopyLag(age_ms=2000), 20),
        (CopyLag(age_ms=2001), 10),
        (CopyLag(age_ms=9000), 0),
        (CopyLag(age_ms=9000, behind_bytes=150), 20),
        (CopyLag(age_ms=-1, behind_bytes=150), 20),
        (CopyLag(age_ms=-1, behind_bytes=151), 10),
        (CopyLag(age_ms=-1, behind_bytes=-1), 0),
        (CopyLag(sealed_ms=1000), 20),
        (CopyLag(sealed_ms=5000), 0),
        (CopyLag(sealed_ms=5000, local_bytes=150), 20),
        (CopyLag(age_ms=2000, sealed_ms=2000), 10),
    ],
)
def test_each_lag_holds_back_what_is_too_young(lag: CopyLag, end: int) -> None:
    """Kafka's two by either, ours on top; 50 bytes are still being written."""
    assert eligible_end(SEGMENTS, 50, lag, NOW) == end


def test_a_newest_record_of_the_future_does_not_wait() -> None:
    """As in Kafka: a producer's clock must not keep data on the disk for ever."""
    ahead = [SealedSegment(10, 100, NOW + 1, NOW)]
    assert eligible_end(ahead, 0, CopyLag(age_ms=5000), NOW) == NO_END


def test_one_that_waits_holds_back_those_behind_it() -> None:
    """Uploads are in offset order, whatever the times of the records."""
    mixed = [SealedSegment(10, 100, NOW, NOW), SealedSegment(20, 100, 0, 0)]
    assert eligible_end(mixed, 0, CopyLag(age_ms=1000), NOW) == 0


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(-1, 500), st.integers(0, 5000))
def test_time_only_adds(age_ms: int, sealed_ms: int, behind_bytes: int, later_ms: int) -> None:
    """A copy that may go now may go later."""
    lag = CopyLag(age_ms, behind_bytes, sealed_ms)
    assert eligible_end(SEGMENTS, 0, lag, NOW) <= eligible_end(SEGMENTS, 0, lag, NOW + later_ms)
