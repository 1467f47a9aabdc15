"""Tests of hot/segments/segment_indexes.py."""

import pytest

from stratalog.hot.segments.index import OffsetIndex, TimeIndex
from stratalog.hot.segments.segment_indexes import SegmentIndexes, TailIndexes
from stratalog.wire.errors import Corrupt


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


def filled(count: int, first: int = 0, into: SegmentIndexes | None = None) -> SegmentIndexes:
    """Indexes of batches of 10 bytes, whose timestamps go back now and then."""
    indexes = into or SegmentIndexes.empty(0, 25)
    for number in range(first, first + count):
        indexes.add_batch(number * 10, 10, number, 100 + number - 7 * (number % 3))
    return indexes


def stored(indexes: SegmentIndexes) -> tuple[bytes, bytes]:
    """The two files, complete."""
    indexes.close()
    files = indexes.offsets.to_bytes(), indexes.times.to_bytes()
    indexes.offsets.stored_count, indexes.times.stored_count = len(indexes.offsets), len(indexes.times)
    return files


@pytest.mark.parametrize("stop", range(20))
def test_a_tail_joined_to_stored_entries_equals_indexes_without_a_stop(stop):
    """Entry by entry, but for those with which a stop closes the time index."""
    first = filled(stop)
    files = stored(first)
    known = first.tail()
    tail = TailIndexes(0, 25, known, 10 * stop)
    went_on = SegmentIndexes(first.offsets, first.times, 25, 10 * stop)
    filled(20 - stop, stop, tail)
    filled(20 - stop, stop, went_on)
    assert tail.wanted_bytes >= went_on.wanted_bytes
    joined = tail.joined_to(tail.known_from_bytes(*files))
    assert joined.offsets.to_bytes() == went_on.offsets.to_bytes() == filled(20).offsets.to_bytes()
    assert joined.times.to_bytes() == went_on.times.to_bytes()
    assert joined.max_timestamp == filled(20).max_timestamp
    assert (joined.offsets.stored_count, joined.times.stored_count) == (known.offset_count, known.time_count)
    assert joined.wanted_bytes == went_on.wanted_bytes


def test_only_stored_entries_are_known():
    """Entries in memory alone would be missed."""
    indexes = filled(9)
    assert indexes.tail() is None
    stored(indexes)
    assert indexes.tail() is not None


@pytest.mark.parametrize("harm", [lambda data: data[:-1], lambda data: b"", lambda data: bytes(len(data))])
@pytest.mark.parametrize("which", [0, 1])
def test_changed_index_files_are_refused(harm, which):
    """Then the entries are derived from the log."""
    indexes = filled(20)
    files = list(stored(indexes))
    tail = TailIndexes(0, 25, indexes.tail(), 200)
    files[which] = harm(files[which])
    with pytest.raises(Corrupt, match="rebuild"):
        tail.known_from_bytes(*files)


def test_entries_behind_the_stored_ones_are_written_again():
    """A stop that was interrupted has left more than is known; the file begins anew then."""
    indexes = filled(20)
    offsets, times = stored(indexes)
    tail = TailIndexes(0, 25, indexes.tail(), 200)
    known = tail.known_from_bytes(offsets + bytes(3), times + bytes(12))
    assert (known.offsets.to_bytes(), known.times.to_bytes()) == (offsets, times)
    assert (known.offsets.stored_count, known.times.stored_count) == (0, 0)
