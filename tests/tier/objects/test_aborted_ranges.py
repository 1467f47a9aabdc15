"""Aborted transactions of an object, found by offset."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.objects.aborted_ranges import AbortedRanges
from stratalog.tier.objects.segment_blobs import AbortedTransaction

offsets = st.integers(0, 30)
transactions = st.lists(
    st.builds(lambda id_, first, more, stable: AbortedTransaction(id_, first, first + more, stable), *[offsets] * 4)
)


@given(transactions, offsets, offsets)
def test_those_that_touch_a_range_are_found(found, start, end):
    """In any order, whatever they say of the last stable offset; also after the way from a worker."""
    ranges = pickle.loads(pickle.dumps(AbortedRanges.of(found)))
    expected = [one for one in found if one.first_offset < end and one.last_offset >= start]
    assert sorted(ranges.touching(start, end)) == sorted(expected)
    assert sorted(ranges) == sorted(found)
    assert len(ranges) == len(found)


def test_the_search_ends_where_no_later_one_begins_before_the_end():
    """A range at the front of an object with a million of them costs no look at the others."""
    ranges = AbortedRanges.of(AbortedTransaction(n, n, n, n) for n in range(1000))
    looked_at = []

    class Counting(type(ranges.earliest)):
        """Notes what is looked at."""

        def __getitem__(self, index):
            looked_at.append(index)
            return super().__getitem__(index)

    counting = AbortedRanges(
        *(getattr(ranges, name) for name in ranges.__struct_fields__[:4]), Counting("q", ranges.earliest)
    )
    assert [one.first_offset for one in counting.touching(10, 12)] == [10, 11]
    assert looked_at == [10, 11, 12]
