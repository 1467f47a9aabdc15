"""Tests of hot/segments/index.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.segments.index import OffsetIndex, TimeEntry, TimeIndex
from stratalog.wire.errors import Corrupt


def entries(index: OffsetIndex) -> list[tuple[int, int]]:
    return list(zip(index.relative_offsets, index.positions, strict=True))


def test_the_offset_index_file_has_8_big_endian_bytes_an_entry():
    """4 bytes of offset relative to the base, 4 bytes of position."""
    index = OffsetIndex(1000)
    index.append(1003, 70)
    index.append(1258, 0x01020304)
    assert index.to_bytes() == bytes.fromhex("00000003 00000046 00000102 01020304")


def test_the_time_index_file_has_12_big_endian_bytes_an_entry():
    """8 bytes of timestamp, 4 bytes of relative offset."""
    index = TimeIndex(1000)
    index.maybe_append(0x0000018BCFE56800, 1003)
    index.maybe_append(0x0000018BCFE56801, 1004)
    assert index.to_bytes() == bytes.fromhex("0000018bcfe56800 00000003 0000018bcfe56801 00000004")


def test_only_new_entries_are_written_again():
    """A file that holds the first entries gets the others appended."""
    index = OffsetIndex(0)
    for number in range(1, 5):
        index.append(number, number * 100)
    assert index.to_bytes(3) == bytes.fromhex("00000004 00000190")
    times = TimeIndex(0)
    for number in range(1, 5):
        times.maybe_append(number, number)
    assert times.to_bytes(3) == bytes.fromhex("0000000000000004 00000004")


@given(st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=60), st.integers(0, 2**40))
def test_an_offset_index_survives_its_file(numbers, base):
    """Parsing what was written gives the same entries."""
    index = OffsetIndex(base)
    for relative, position in zip(sorted(numbers), sorted(numbers), strict=True):
        index.append(base + relative, position)
    assert entries(OffsetIndex.from_bytes(base, index.to_bytes())) == entries(index)


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**31 - 1)), max_size=60), st.integers(0, 2**40))
def test_a_time_index_survives_its_file(pairs, base):
    """Parsing what was written gives the same entries, whatever the bits of the timestamps."""
    index = TimeIndex(base)
    stamps, offsets = sorted({stamp for stamp, _ in pairs}), sorted({offset for _, offset in pairs})
    for stamp, offset in zip(stamps, offsets, strict=False):
        index.maybe_append(stamp, base + offset)
    again = TimeIndex.from_bytes(base, index.to_bytes())
    assert again.timestamps == index.timestamps
    assert again.relative_offsets == index.relative_offsets


@given(st.lists(st.integers(0, 500), unique=True, min_size=1, max_size=40), st.integers(-10, 600))
def test_lookup_is_the_floor_entry(numbers, wanted):
    """Bisection finds what a linear scan finds, base offset and position 0 below the first entry."""
    index = OffsetIndex(100)
    times = TimeIndex(100)
    for number in sorted(numbers):
        index.append(100 + number, number * 10)
        times.maybe_append(number, 100 + number)
    floor = max((number for number in numbers if number <= wanted), default=None)
    assert index.lookup(100 + wanted) == (0 if floor is None else floor * 10)
    assert index.floor_at(wanted * 10)[1] == (0 if floor is None else floor * 10)
    assert index.floor(100 + wanted) == index.floor_at(wanted * 10)
    assert times.lookup(wanted) == (TimeEntry(-1, 100) if floor is None else TimeEntry(floor, 100 + floor))


@given(st.lists(st.integers(0, 500), unique=True, max_size=40), st.integers(0, 600))
def test_truncation_forgets_entries_from_the_cut_on(numbers, cut):
    """Entries that begin at or above the cut are gone, the rest stays."""
    index, times = OffsetIndex(0), TimeIndex(0)
    for number in sorted(numbers):
        index.append(number, number * 10)
        times.maybe_append(number, number)
    index.truncate(cut * 10)
    times.truncate(cut)
    assert list(index.relative_offsets) == sorted(number for number in numbers if number < cut)
    assert list(times.relative_offsets) == sorted(number for number in numbers if number < cut)


def test_a_time_entry_needs_a_larger_timestamp():
    """Equal and older timestamps, and no timestamp at all, add nothing."""
    index = TimeIndex(0)
    index.maybe_append(-1, 1)
    index.maybe_append(50, 2)
    index.maybe_append(50, 3)
    index.maybe_append(49, 4)
    assert list(index.timestamps) == [50]
    assert index.last() == TimeEntry(50, 2)


@pytest.mark.parametrize(
    "text",
    [
        "00000003 000000",  # not whole entries
        "00000003 00000046 00000003 00000050",  # offsets stand still
        "00000003 00000046 00000004 00000046",  # positions stand still
        "00000003 00000046 00000000 00000000",  # zeroes behind the last entry
        "ffffffff 00000046",  # a negative offset
    ],
)
def test_a_damaged_offset_index_is_refused(text):
    """Sizes and order are checked before anything is believed."""
    with pytest.raises(Corrupt):
        OffsetIndex.from_bytes(0, bytes.fromhex(text))


@pytest.mark.parametrize(
    "text",
    [
        "0000000000000001 000000",
        "0000000000000002 00000001 0000000000000002 00000002",
        "0000000000000002 00000002 0000000000000003 00000001",
        "0000000000000002 ffffffff",
    ],
)
def test_a_damaged_time_index_is_refused(text):
    """Sizes and order are checked before anything is believed."""
    with pytest.raises(Corrupt):
        TimeIndex.from_bytes(0, bytes.fromhex(text))
