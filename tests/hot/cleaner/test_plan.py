"""Tests of hot/cleaner/plan.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.cleaner.plan import CleanableSegment, CleaningPolicy, Section, cleanable_section, dirtiest, grouped
from stratalog.hot.config import LONG_MAX

NOW_MS = 1_000_000
POLICY = CleaningPolicy(0.5, 0, LONG_MAX)


def segment(base: int, end: int, size: int = 100, *, newest_ms: int = 1, first_ms: int = -1, index: int = 0):
    return CleanableSegment(base, end, size, newest_ms, first_ms, index, index)


FOUR = [segment(0, 10), segment(10, 20), segment(20, 30), segment(30, 40)]


def section(segments=FOUR, policy: CleaningPolicy = POLICY, **given) -> Section | None:
    arguments = {"cleaned_offset": None, "log_start_offset": 0, "log_end_offset": 50, "limit_offset": 50} | given
    return cleanable_section(segments, policy, now_ms=NOW_MS, **arguments)


def test_a_log_that_was_never_cleaned_is_all_dirty():
    """From its first offset to the end of its frozen segments."""
    assert section() == Section(0, 40, 0, 400, overdue=False)
    assert section([]) is None


def test_the_checkpoint_divides_clean_from_dirty():
    """A segment in which it lies counts for both, as in Kafka."""
    assert section(cleaned_offset=20) == Section(20, 40, 200, 200, overdue=False)
    assert section(cleaned_offset=25) == Section(25, 40, 300, 200, overdue=False)
    assert section(cleaned_offset=40) is None


@pytest.mark.parametrize(("cleaned", "start", "end"), [(5, 10, 50), (60, 10, 50), (None, 10, 50)])
def test_a_checkpoint_outside_of_the_log_is_void(cleaned, start, end):
    """Retention, or a log that was begun anew: everything is dirty."""
    found = section(FOUR[1:], cleaned_offset=cleaned, log_start_offset=start, log_end_offset=end)
    assert found.first_dirty_offset == 10


@pytest.mark.parametrize(("limit", "end"), [(40, 40), (39, 30), (10, 10), (9, None)])
def test_no_offset_above_the_limit_is_cleaned(limit, end):
    """The first undecided transaction, the high watermark, of a tiered topic the remote end: whole segments below."""
    found = section(limit_offset=limit)
    assert (None if found is None else found.end_offset) == end


def test_segments_within_min_compaction_lag_stay():
    """``min.compaction.lag.ms`` counts from a segment's newest record; what follows one stays, too."""
    policy = POLICY._replace(min_compaction_lag_ms=100)
    segments = [FOUR[0], segment(10, 20, newest_ms=NOW_MS - 99), segment(20, 30, newest_ms=1)]
    assert section(segments, policy).end_offset == 10
    segments[1] = segment(10, 20, newest_ms=NOW_MS - 100)
    assert section(segments, policy).end_offset == 30


@pytest.mark.parametrize(("clean", "dirty", "due"), [(100, 100, False), (100, 101, True), (0, 1, True), (0, 0, False)])
def test_a_log_is_due_above_its_dirty_ratio_only(clean, dirty, due):
    """``min.cleanable.dirty.ratio`` must be exceeded."""
    assert Section(0, 10, clean, dirty, overdue=False).is_due(POLICY) is due


def test_an_overdue_record_makes_a_clean_log_due():
    """``max.compaction.lag.ms`` counts from the first batch of a dirty segment."""
    policy = POLICY._replace(max_compaction_lag_ms=100)
    for first_ms, due in ((NOW_MS - 100, False), (NOW_MS - 101, True)):
        segments = [segment(0, 10, 1000), segment(10, 20, 10, first_ms=first_ms)]
        assert section(segments, policy, cleaned_offset=10).is_due(policy) is due


def test_the_dirtiest_log_is_next():
    """The dirtiest of the logs that are due."""
    sections = [Section(0, 1, 50, 100, overdue=False), Section(0, 1, 10, 100, overdue=False)]
    assert dirtiest(sections, [POLICY, POLICY]) == 1
    assert dirtiest(sections, [POLICY, POLICY._replace(min_cleanable_dirty_ratio=0.95)]) == 0
    assert dirtiest([Section(0, 1, 100, 100, overdue=False)], [POLICY]) is None


@given(st.lists(st.tuples(st.integers(1, 1 << 31), st.integers(0, 120), st.integers(0, 60)), min_size=1, max_size=20))
def test_groups_are_as_large_as_a_segment_may_be(shapes):
    """In bytes, index entries and offsets; each segment is in one group, in order."""
    segments, base = [], 0
    for length, size, index in shapes:
        segments.append(segment(base, base + length, size, index=index))
        base += length
    groups = grouped(segments, segment_bytes=200, index_bytes=100)
    assert [one for group in groups for one in group] == segments
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        assert len(group) == 1 or _fits(group)
        assert following is None or not _fits([*group, following[0]])


def _fits(group) -> bool:
    span = group[-1].end_offset - 1 - group[0].base_offset
    bytes_ = sum(one.size_bytes for one in group)
    return bytes_ <= 200 and sum(one.offset_index_bytes for one in group) <= 100 and span <= (1 << 31) - 1
