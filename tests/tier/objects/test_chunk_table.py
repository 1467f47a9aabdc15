from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.objects.chunk_table import ROW_BYTES, Chunk, ChunkTable
from stratalog.wire.errors import Corrupt

rows = st.lists(
    st.tuples(st.integers(1, 10**6), st.integers(1, 2**31), st.integers(0, 2**32 - 1), st.integers(-1, 2**62)),
    max_size=20,
)


def table_of(steps):
    """Chunks one behind the other."""
    table = ChunkTable()
    offset = position = 0
    for gap, length, crc, timestamp_ms in steps:
        offset += gap
        table.append(Chunk(offset, position, length, crc, timestamp_ms))
        position += length
    return table


@given(rows)
def test_a_table_survives_its_bytes(steps):
    """32 bytes a row, and the same rows come back."""
    table = table_of(steps)
    data = table.to_bytes()
    assert len(data) == ROW_BYTES * len(steps) == 32 * len(steps)
    assert ChunkTable.from_bytes(data) == table
    assert list(ChunkTable.from_bytes(memoryview(data))) == list(table)
    assert [table.first_offset(index) for index in range(len(table))] == [chunk.first_offset for chunk in table]


@given(rows.filter(bool), st.integers(0, 2 * 10**7))
def test_an_offset_is_found_in_the_last_chunk_that_begins_at_or_before_it(steps, offset):
    """The same answer as a walk over all rows; the first chunk for an offset before the table."""
    table = table_of(steps)
    walk = [i for i, chunk in enumerate(table) if chunk.first_offset <= offset]
    assert table.find_offset(offset) == (walk[-1] if walk else 0)


def test_a_timestamp_is_found_in_the_first_chunk_that_reaches_it():
    """Timestamps need not ascend: the first chunk that may hold the time counts."""
    table = table_of([(1, 10, 0, 100), (1, 10, 0, 50), (1, 10, 0, 200)])
    assert table.find_timestamp(40) == 0
    assert table.find_timestamp(101) == 2
    assert table.find_timestamp(60, start=1) == 2
    assert table.find_timestamp(201) is None


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ([Chunk(0, 5, 10, 0, 0)], "cannot stand"),
        ([Chunk(0, 0, 0, 0, 0)], "cannot stand"),
        ([Chunk(0, 0, 10, 0, 0), Chunk(5, 11, 10, 0, 0)], "does not follow"),
        ([Chunk(5, 0, 10, 0, 0), Chunk(5, 10, 10, 0, 0)], "does not follow"),
    ],
)
def test_rows_with_gaps_or_overlaps_are_corrupt(rows, match):
    """A table that does not cover the data in one run is never used."""
    with pytest.raises(Corrupt, match=match):
        ChunkTable(rows)


def test_a_torn_table_is_corrupt():
    """Bytes that are no multiple of a row are refused."""
    with pytest.raises(Corrupt, match="multiple"):
        ChunkTable.from_bytes(bytes(33))
