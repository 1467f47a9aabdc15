"""Whole batches out of cached chunks."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.cold.chunk_slices import ChunkSlices
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.reading.cached_chunk import CachedChunk
from stratalog.wire.batch import Record, build_batch, iter_headers


def chunk_of(path, batches, indexed, start=0):
    """A cached chunk of batches [(base, count, size)], whose index knows every ``indexed``-th; and its open file.

    ``start`` other bytes precede it in its file.
    """
    data, offsets, positions, end = b"", array("q"), array("i"), 0
    for number, (base, count, size) in enumerate(batches):
        if number % indexed == 0:
            offsets.append(base)
            positions.append(len(data))
        data += build_batch([Record(base + n, 0, None, b"v" * size) for n in range(count)])
        end = base + count
    path.write_bytes(b"\xff" * start + data + b"\xff")
    return CachedChunk(str(path), len(data), end, offsets, positions, start), RealFilesystem().open_read(str(path))


def bytes_of(slices):
    return b"".join(part.file.pread(part.length, part.position) for part in slices.parts)


@given(
    counts=st.lists(st.tuples(st.integers(1, 4), st.sampled_from([1, 900, 70_000])), min_size=1, max_size=8),
    indexed=st.integers(1, 4),
    room=st.integers(0, 200_000),
    start=st.sampled_from([0, 1, 70_000]),
    data=st.data(),
)
def test_slices_begin_at_the_batch_of_the_offset_and_end_on_a_border(
    tmp_path_factory, counts, indexed, room, start, data
):
    """Within the room, except for a first batch, and wherever in its file the chunk lies."""
    base, batches = 50, []
    for count, size in counts:
        batches.append((base, count, size))
        base += count
    offset = data.draw(st.integers(50, base - 1))
    chunk, file = chunk_of(tmp_path_factory.mktemp("c") / "x", batches, indexed, start)
    slices = ChunkSlices(offset, room, min_one_batch=True)
    whole = slices.add(chunk, file, base)
    headers = [header for _, header in iter_headers(bytes_of(slices))]
    assert headers[0].base_offset <= offset < headers[0].next_offset
    assert sum(one.size_bytes for one in headers) == slices.size_bytes
    assert slices.size_bytes <= max(room, headers[0].size_bytes)
    assert slices.next_offset == headers[-1].next_offset
    assert whole == (slices.next_offset == base)
    assert len(slices.parts) == 1


def test_chunks_follow_each_other(tmp_path):
    """The second begins where the first ends."""
    first = chunk_of(tmp_path / "1", [(0, 2, 10), (2, 2, 10)], 1)
    second = chunk_of(tmp_path / "2", [(4, 2, 10)], 1)
    slices = ChunkSlices(3, 10_000, min_one_batch=True)
    assert slices.add(*first, 4)
    assert slices.add(*second, 6)
    assert [header.base_offset for _, header in iter_headers(bytes_of(slices))] == [2, 4]
    assert slices.next_offset == 6


def test_a_hole_behind_the_last_batch_leads_to_the_next_chunk(tmp_path):
    """Compaction leaves such holes; a reader that stands in one goes on."""
    first = chunk_of(tmp_path / "1", [(0, 2, 10)], 1)
    second = chunk_of(tmp_path / "2", [(8, 2, 10)], 1)
    slices = ChunkSlices(5, 10_000, min_one_batch=True)
    assert slices.add(*first, 8)
    assert slices.next_offset == 8
    assert not slices.parts
    assert slices.add(*second, 10)
    assert slices.next_offset == 10


@pytest.mark.parametrize("room", [0, 20])
def test_without_a_promise_nothing_is_taken_that_does_not_fit(tmp_path, room):
    """Another partition of the same answer has used up the bytes."""
    slices = ChunkSlices(0, room, min_one_batch=False)
    assert not slices.add(*chunk_of(tmp_path / "1", [(0, 2, 10), (2, 2, 10)], 2), 4)
    assert (slices.parts, slices.size_bytes, slices.next_offset) == ([], 0, 0)


@pytest.mark.parametrize("indexed", [1, 5])
@pytest.mark.parametrize("room", [100, 10_000])
def test_a_batch_that_begins_at_the_end_is_not_taken(tmp_path, indexed, room):
    """The end lies inside a chunk, between two entries of its index or at one."""
    chunk = chunk_of(tmp_path / "1", [(base, 2, 10) for base in range(0, 10, 2)], indexed)
    at, found = 0, []
    while at < 6:
        slices = ChunkSlices(at, room, min_one_batch=True, end_offset=6)
        assert not slices.add(*chunk, 10)
        found += [header.base_offset for _, header in iter_headers(bytes_of(slices))]
        at = slices.next_offset
    assert (at, found) == (6, [0, 2, 4])
