"""Tests of hot/segments/transaction_index.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.segments.transaction_index import AbortedTxn, aborted_from_bytes, aborted_to_bytes, overlapping
from stratalog.wire.errors import Corrupt


def test_an_entry_takes_34_bytes():
    """Version 0, producer, first and last offset, last stable offset."""
    data = aborted_to_bytes([AbortedTxn(7, 10, 20, 21)])
    assert data == bytes.fromhex("0000 0000000000000007 000000000000000a 0000000000000014 0000000000000015")


@given(st.lists(st.integers(0, 2**60), unique=True, max_size=10))
def test_entries_survive_their_file(offsets):
    """Written entries come back."""
    made = [AbortedTxn(1, offset // 2, offset, offset + 1) for offset in sorted(offsets)]
    assert aborted_from_bytes(aborted_to_bytes(made)) == made


@pytest.mark.parametrize(
    "data",
    [
        bytes(33),
        b"\0\1" + bytes(32),
        aborted_to_bytes([AbortedTxn(1, 0, 5, 6), AbortedTxn(1, 6, 5, 7)]),
    ],
)
def test_a_damaged_file_is_refused(data):
    """Odd sizes, unknown versions and offsets that go back."""
    with pytest.raises(Corrupt):
        aborted_from_bytes(data)


def test_overlap_is_inclusive_of_the_marker_and_exclusive_of_the_end():
    """A transaction matters if any of its offsets lies in the range."""
    made = [AbortedTxn(1, 10, 20, 21)]
    assert overlapping(made, 20, 30) == made
    assert overlapping(made, 21, 30) == []
    assert overlapping(made, 0, 10) == []
    assert overlapping(made, 0, 11) == made
