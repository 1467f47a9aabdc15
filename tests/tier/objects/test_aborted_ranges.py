"""Aborted transactions of an object, found by offset."""

import pickle
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stratalog.tier.objects import aborted_ranges
from stratalog.tier.objects.aborted_ranges import AbortedRanges
from stratalog.tier.objects.segment_blobs import AbortedTransaction

offsets = st.integers(0, 30)
transactions = st.lists(
    st.builds(lambda id_, first, more, stable: AbortedTransaction(id_, first, first + more, stable), *[offsets] * 4)
)


@pytest.mark.parametrize("fan", [2, 32])
@given(found=transactions, start=offsets, end=offsets)
def test_those_that_touch_a_range_are_found(fan, found, start, end):
    """In any order, whatever they say of the last stable offset; also after the way from a worker, and with many levels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aborted_ranges, "_FAN", fan)
        check_touching(found, start, end)


def check_touching(found, start, end):
    ranges = pickle.loads(pickle.dumps(AbortedRanges.of(found)))
    expected = [one for one in found if one.first_offset < end and one.last_offset >= start]
    assert sorted(ranges.touching(start, end)) == sorted(expected)
    assert sorted(ranges) == sorted(found)
    assert len(ranges) == len(found)


def test_the_search_looks_at_few_of_very_many():
    """Also where one transaction was open all the time: its marker comes behind those of the others."""
    looked_at = []

    class Counting(array):
        """Notes what is looked at."""

        def __getitem__(self, index):
            looked_at.append(index)
            return super().__getitem__(index)

    short = [AbortedTransaction(n, n, n, n) for n in range(40_000)]
    for long in ([], [AbortedTransaction(40_000, 0, 40_001, 0)]):
        ranges = AbortedRanges.of([*short, *long])
        counting = structs.replace(ranges, first_offsets=tuple(Counting("q", row) for row in ranges.first_offsets))
        looked_at.clear()
        assert counting.touching(10, 12) == [*short[10:12], *long]
        assert len(looked_at) < 300
