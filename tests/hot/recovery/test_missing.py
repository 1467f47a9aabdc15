"""Tests of hot/recovery/missing.py."""

from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.recovery.missing import MissingPlace, mark_missing, missing_range, missing_segment, noted_reason
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segment_cache import SegmentCache


@pytest.fixture
def place(files, tmp_path):
    return MissingPlace(files, str(tmp_path), LogConfig(), SegmentCache())


def found(place, base, end):
    return Segment(place.files, place.directory, base, place.config, place.cache, next_offset=end, frozen=True)


def test_a_missing_range_is_found_again_with_its_reason(place):
    """Also in a log whose offsets may be missing."""
    segment = missing_segment(place, 10, 20, "/d/0.log is damaged at position 5")
    again = found(place, 10, 20)
    assert mark_missing(place.files, again, 1000)
    assert again.missing == segment.missing == "/d/0.log is damaged at position 5"
    error = missing_range(again)
    assert (error.base_offset, error.end_offset, error.next_offset, error.why) == (10, 20, 20, again.missing)


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b"{}", b"\xff"])
def test_a_damaged_note_is_a_note(place, note):
    """Its words are lost, what it stands for is not."""
    missing_segment(place, 10, 20, "why")
    Path(f"{place.directory}/{10:020d}.missing").write_bytes(note)
    again = found(place, 10, 20)
    assert mark_missing(place.files, again, 1000)
    assert "was damaged" in (again.missing or "")


@pytest.mark.parametrize(("gaps_below", "missing"), [(0, True), (19, True), (20, False), (1000, False)])
def test_an_empty_segment_without_a_note_is_missing_where_there_are_no_gaps(place, gaps_below, missing):
    """Kafka's cleaner may leave one."""
    segment = found(place, 10, 20)
    assert mark_missing(place.files, segment, gaps_below) is missing
    assert noted_reason(place.files, segment) is None


def test_neither_an_active_segment_nor_one_with_bytes_is_missing(place):
    """A segment that takes no offsets is not missing either."""
    active = Segment(place.files, place.directory, 10, place.config, place.cache)
    assert not mark_missing(place.files, active, 0)
    full = Segment(
        place.files, place.directory, 10, place.config, place.cache, size_bytes=5, next_offset=20, frozen=True
    )
    assert not mark_missing(place.files, full, 0)
    assert not mark_missing(place.files, found(place, 10, 10), 0)
