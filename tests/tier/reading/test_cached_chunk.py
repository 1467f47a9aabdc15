"""A cached chunk and its sparse index."""

from __future__ import annotations

from array import array

from stratalog.tier.messages.commands import FilledChunk
from stratalog.tier.reading.cached_chunk import CachedChunk, ChunkFile


def test_an_index_comes_as_little_endian_bytes():
    """Offsets and positions are read as little-endian; a batch is looked for from the border before it."""
    offsets = b"".join(n.to_bytes(8, "little") for n in (5, 10, 300))
    positions = b"".join(n.to_bytes(4, "little") for n in (0, 70, 140))
    chunk = CachedChunk.of(FilledChunk("/cache/1", 200, offsets, positions, 400, 7, shared=True))
    assert chunk.offsets == array("q", [5, 10, 300])
    assert [chunk.position_before(offset) for offset in (0, 5, 9, 10, 299, 300, 999)] == [0, 0, 0, 70, 70, 140, 140]
    assert [offset for offset in range(4, 302) if chunk.begins_at(offset)] == [5, 10, 300]
    assert (chunk.path, chunk.length, chunk.next_offset, chunk.start, chunk.shared) == ("/cache/1", 200, 400, 7, True)


def test_only_files_of_the_cache_take_room_on_its_disk():
    """A chunk served from the archive's own file needs no file in the cache."""
    assert [ChunkFile("/a", shared=shared).disk_share for shared in (False, True)] == [1, 0]
