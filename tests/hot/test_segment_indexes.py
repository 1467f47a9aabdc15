"""Tests of hot/segment_indexes.py."""

from stratalog.hot.index import OffsetIndex, TimeIndex
from stratalog.hot.segment_indexes import SegmentIndexes


def test_indexes_are_full_by_entries():
    """The offset index at its last slot, the time index one before."""
    indexes = SegmentIndexes.empty(0, 0)
    for number in range(11):
        assert (indexes.wanted_bytes > 80) == (number > 5)
        indexes.add_batch(number * 10, 10, number, 100 + number)
    flat = SegmentIndexes.empty(0, 0)
    for number in range(11):
        assert flat.wanted_bytes <= 80
        flat.add_batch(number * 10, 10, number, 100)
    assert flat.wanted_bytes > 80


def test_an_entry_needs_more_than_the_interval_before_its_batch():
    """The first batch never has one; the count begins anew with each entry."""
    indexes = SegmentIndexes.empty(100, 25)
    for number in range(9):
        indexes.add_batch(number * 10, 10, 100 + number, 1000 - number)
    assert list(indexes.offsets.positions) == [30, 60]
    assert list(indexes.offsets.relative_offsets) == [3, 6]
    assert list(indexes.times.timestamps) == [1000]
    assert indexes.max_timestamp == (1000, 100)


def test_growth_goes_on_where_stored_indexes_end():
    """After a restart the next entry comes at the place it would have come without one."""
    whole = SegmentIndexes.empty(0, 25)
    for number in range(20):
        whole.add_batch(number * 10, 10, number, number)
    for stop in range(20):
        first = SegmentIndexes.empty(0, 25)
        for number in range(stop):
            first.add_batch(number * 10, 10, number, number)
        offsets = OffsetIndex.from_bytes(0, first.offsets.to_bytes())
        again = SegmentIndexes(offsets, TimeIndex.from_bytes(0, first.times.to_bytes()), 25, stop * 10)
        for number in range(stop, 20):
            again.add_batch(number * 10, 10, number, number)
        assert again.offsets.to_bytes() == whole.offsets.to_bytes()


def test_the_closing_entry_is_counted():
    """A closed segment's time index has the largest timestamp as its last entry, and wants room for one more."""
    indexes = SegmentIndexes.empty(0, 1000)
    indexes.add_batch(0, 10, 0, 77)
    indexes.close()
    indexes.close()
    assert list(indexes.times.timestamps) == [77]
    assert indexes.wanted_bytes == 36
