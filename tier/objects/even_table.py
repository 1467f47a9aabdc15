"""A chunk table that was not read yet: the manifest's facts of an object, spread evenly. Pure.

The manifest names the bytes of the data and of the chunk table, hence how many chunks there are; sizes of chunks
differ by less than a batch. A forecast made from it costs no request, and runs through the planning that the reader
itself uses.
"""

from __future__ import annotations

from stratalog.tier.objects.chunk_table import ROW_BYTES, Chunk, ChunkTable

__all__ = ["even_table"]


def even_table(base: int, end: int, data_bytes: int, chunks_bytes: int) -> ChunkTable:
    """Chunks of nearly equal size over the offsets ``[base, end)``; at least one, and none empty."""
    count = max(1, min(chunks_bytes // ROW_BYTES, end - base, data_bytes))
    table = ChunkTable()
    for number in range(count):
        start, stop = data_bytes * number // count, data_bytes * (number + 1) // count
        table.append(Chunk(base + (end - base) * number // count, start, max(1, stop - start), 0, -1))
    return table
