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
    assert overlapping(made, 20, 30) == (made, False)
    assert overlapping(made, 21, 30) == ([], False)
    assert overlapping(made, 0, 10) == ([], True)
    assert overlapping(made, 0, 11) == (made, True)


def history(ends: list[int]) -> list[AbortedTxn]:
    """Transactions of one record each that begin at 0, 1, 2 ...; their markers follow in the order of ``ends``."""
    made, offset, is_open = [], len(ends), set(range(len(ends)))
    for first in ends:
        is_open.discard(first)
        made.append(AbortedTxn(first, first, offset, min(is_open, default=offset + 1)))
        offset += 1
    return made


@given(st.permutations(range(9)), st.permutations(range(5)), st.integers(0, 30), st.integers(0, 30))
def test_the_last_stable_offset_ends_the_search_where_no_later_one_can_touch(first, second, from_offset, to_offset):
    """As a look at all of them finds."""
    start = 2 * len(first)
    made = history(first)
    made += [AbortedTxn(id_, *(start + offset for offset in offsets)) for id_, *offsets in history(second)]
    touching = [one for one in made if one.last_offset >= from_offset and one.first_offset < to_offset]
    assert overlapping(made, from_offset, to_offset)[0] == touching


class Counted(list[AbortedTxn]):
    """Counts the looks at its items."""

    looks = 0

    def __getitem__(self, number):
        self.looks += 1
        return super().__getitem__(number)


@pytest.mark.parametrize("first", [0, 150_000, 299_997, 300_000])
def test_a_read_looks_at_few_of_many_aborted_transactions(first):
    """Each fetch at the tail of such a segment took a quarter of a second, with 400,000 of them."""
    made = Counted(AbortedTxn(7, offset, offset + 2, offset + 3) for offset in range(0, 300_000, 3))
    assert len(overlapping(made, first, first + 30)[0]) == min(10, (300_000 - first) // 3)
    assert made.looks < 40
