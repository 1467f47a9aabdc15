"""Tests of hot/segments/segments.py."""

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.segments.segments import SegmentList


@pytest.fixture
def segments(files, tmp_path) -> SegmentList:
    return SegmentList([Segment(files, str(tmp_path), base, LogConfig(), SegmentCache()) for base in (10, 20, 30)])


def test_the_segment_of_an_offset_is_the_last_that_begins_at_or_below_it(segments):
    """At base-1, base, and beyond; the first one below all."""
    assert [segments.floor(offset) for offset in (0, 9, 10, 19, 20, 29, 30, 99)] == [0, 0, 0, 0, 1, 1, 2, 2]
    assert segments.active.base_offset == 30


def test_the_active_one_is_always_the_last(segments):
    """The last segment is the active one after removals at both ends and after appends."""
    for change in (lambda: segments.remove_from(2), lambda: segments.remove_first(1)):
        change()
        assert segments.active is segments[len(segments) - 1]
    segments.append(segments[0])
    segments.remove_from(0)
    segments.append(new := Segment(None, "", 99, LogConfig(), SegmentCache()))
    assert segments.active is new


def test_removal_hands_segments_over_and_forgets_borders(segments):
    """Removed segments are handed over, and their known borders are forgotten."""
    segments.note_border(25, segments[1], 100)
    assert segments.border_in(segments[1], 25) == 100
    assert segments.border_in(segments[2], 25) is None
    assert [segment.base_offset for segment in segments.remove_first(1)] == [10]
    assert segments.border_in(segments[0], 25) is None
    assert [segment.base_offset for segment in segments.remove_from(1)] == [30]
    assert [segment.base_offset for segment in segments] == [20]
    assert segments.floor(99) == 0


def test_known_borders_are_bounded(segments):
    """The oldest leave first."""
    for offset in range(200):
        segments.note_border(offset, segments[0], offset)
    assert segments.border_in(segments[0], 199) == 199
    assert segments.border_in(segments[0], 0) is None
