from __future__ import annotations

from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.objects.sparse_index import SparseIndex
from stratalog.wire.batch import HEADER_BYTES, Record, build_batch, iter_headers
from stratalog.wire.errors import Corrupt


def batches(sizes):
    """One batch for each size of a value, one behind the other."""
    return b"".join(bytes(build_batch([Record(5 + n, 9, None, bytes(size))])) for n, size in enumerate(sizes))


def fed(data, cuts, interval_bytes):
    """The index of ``data`` cut at these places."""
    index = SparseIndex(interval_bytes)
    borders = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(borders):
        index.feed(memoryview(data)[start:end])
    return index


def expected(data, interval_bytes):
    """By a walk over the headers: offsets, positions, and the next offset."""
    offsets, positions, due, following = array("q"), array("i"), 0, 77
    for position, header in iter_headers(data):
        if position >= due:
            offsets.append(header.base_offset)
            positions.append(position)
            due = position + interval_bytes
        following = header.next_offset
    return offsets.tobytes(), positions.tobytes(), following


@pytest.mark.story
@given(
    st.lists(st.integers(0, 300), max_size=12),
    st.lists(st.integers(0, 10_000), max_size=30),
    st.sampled_from([0, 100, 10**6]),
)
def test_it_is_the_same_wherever_the_pieces_are_cut(sizes, cuts, interval_bytes):
    """Inside headers, between them, and not at all."""
    data = batches(sizes)
    assert fed(data, cuts, interval_bytes).finish(77) == expected(data, interval_bytes)


def test_it_is_the_same_byte_by_byte():
    """Every header is cut at every place."""
    data = batches([0, 10, 300])
    assert fed(data, range(len(data)), 0).finish(77) == expected(data, 0)


@given(st.integers(1, 600), st.lists(st.integers(0, 10_000), max_size=5))
def test_a_batch_that_is_cut_short_is_refused(missing, cuts):
    """The chunk then ends inside a batch, or inside a header."""
    data = batches([40] * 6)
    torn = data[: len(data) - missing]
    if len(torn) in {0, *(position for position, _ in iter_headers(data))}:
        return
    with pytest.raises(Corrupt, match="batch border"):
        fed(torn, cuts, 0).finish(0)


@pytest.mark.parametrize("cuts", [[], [30], [200]])
def test_a_length_that_no_batch_has_is_refused(cuts):
    """Zero and negative ones too: nothing goes round in circles. The position is that of the damage."""
    for length in (0, HEADER_BYTES - 13, -1, -(2**31)):
        data = bytearray(batches([40, 40, 40]))
        second = len(data) // 3
        data[second + 8 : second + 12] = length.to_bytes(4, "big", signed=True)
        index = fed(bytes(data), cuts, 0)
        with pytest.raises(Corrupt, match="batch border"):
            index.finish(0)
        assert index.position == second
