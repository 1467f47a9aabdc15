"""Chunk tables guessed from a manifest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.objects.chunk_table import ROW_BYTES
from stratalog.tier.objects.even_table import even_table


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 31), st.integers(1, 1 << 31), st.integers(0, 600))
def test_chunks_cover_the_object(base: int, count: int, data_bytes: int, rows: int) -> None:
    """As many as the manifest says, where offsets and bytes allow it; sizes differ by one byte at most."""
    table = even_table(base, base + count, data_bytes, rows * ROW_BYTES)
    assert len(table) == max(1, min(rows, count, data_bytes))
    assert table.data_bytes == data_bytes
    assert table[0].first_offset == base
    assert table[len(table) - 1].first_offset < base + count
    lengths = {chunk.length for chunk in table}
    assert max(lengths) - min(lengths) <= 1
