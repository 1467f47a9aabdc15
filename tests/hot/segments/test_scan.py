"""Tests of hot/segments/scan.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.segments.scan import CheckedBatch, Damage, read_batch, scan_borders, scan_checked, scan_headers
from stratalog.wire.batch import BATCH_HEADER, HEADER_BYTES, read_header
from stratalog.wire.errors import Corrupt


class Bytes:
    """A file of given content."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def pread(self, length, position):
        return self.data[position : position + length]


@pytest.fixture
def three(make_batch) -> bytes:
    return bytes(make_batch(5, 2) + make_batch(7, 300) + make_batch(307, 1))


def test_headers_are_walked_whatever_the_step(three):
    """Bodies larger than a step are skipped over."""
    for step in (HEADER_BYTES, 100, 1 << 20):
        found = list(scan_headers(Bytes(three), 0, len(three), step_bytes=step))
        assert [header.base_offset for _, header in found] == [5, 7, 307]
        assert found[0][0] == 0


def test_borders_agree_with_headers(three):
    """Position, size, first and last offset."""
    expected = [
        (position, header.size_bytes, header.base_offset, header.last_offset)
        for position, header in scan_headers(Bytes(three), 0, len(three))
    ]
    assert list(scan_borders(Bytes(three), 0, len(three))) == expected


def test_a_torn_last_batch_ends_the_walk(three):
    """Only whole batches are reported, also where the limit lies inside one."""
    for walk in (scan_headers, scan_borders):
        assert len(list(walk(Bytes(three), 0, len(three) - 1))) == 2
        assert len(list(walk(Bytes(three[:-1]), 0, len(three) - 1))) == 2
        assert list(walk(Bytes(three[:60]), 0, 60)) == []


def test_checked_batches_carry_their_bytes(three):
    """A batch that spans the read step is read again whole."""
    found = list(scan_checked(Bytes(three), 0, len(three), 5))
    assert all(isinstance(batch, CheckedBatch) for batch in found)
    assert b"".join(batch.data for batch in found) == three


def test_a_batch_larger_than_the_read_step(make_batch):
    """Two mebibytes in one batch."""
    from stratalog.wire.batch import Record, build_batch

    data = bytes(build_batch([Record(0, 0, None, bytes(2 << 20))]) + make_batch(1))
    found = list(scan_checked(Bytes(data), 0, len(data), 0))
    assert [batch.header.base_offset for batch in found] == [0, 1]


@given(st.data())
def test_any_flipped_byte_ends_the_checked_walk_at_its_batch(data):
    """Batches before it are intact; the two fields outside of the CRC are judged by order alone."""
    from stratalog.wire.batch import Record, build_batch

    batches = [bytes(build_batch([Record(base, 0, b"k", b"v" * 20)])) for base in range(3)]
    which = data.draw(st.integers(0, 2))
    at = data.draw(st.integers(16, len(batches[0]) - 1))
    start = which * len(batches[0])
    content = bytearray(b"".join(batches))
    content[start + at] ^= data.draw(st.integers(1, 255))
    found = list(scan_checked(Bytes(bytes(content)), 0, len(content), 0))
    assert isinstance(found[-1], Damage)
    assert found[-1].position == start
    assert len(found) == which + 1


@given(st.binary(max_size=400))
def test_arbitrary_bytes_end_the_checked_walk_without_an_error(content):
    """Either nothing is there or damage is named."""
    found = list(scan_checked(Bytes(content), 0, len(content), 0))
    assert len(found) == (1 if content else 0)


def test_an_old_block_that_came_back_is_damage(make_batch):
    """Offsets may not go back."""
    content = bytes(make_batch(10) + make_batch(4))
    assert isinstance(list(scan_checked(Bytes(content), 0, len(content), 10))[1], Damage)


def test_an_impossible_length_is_damage(make_batch):
    """Negative, and longer than the file."""
    for length in (-5, 1 << 30):
        batch = make_batch(0)
        BATCH_HEADER.pack_into(batch, 0, *read_header(batch)._replace(batch_length=length))
        assert isinstance(next(scan_checked(Bytes(bytes(batch)), 0, len(batch), 0)), Damage)


def test_a_batch_cut_short_cannot_be_read(make_batch):
    """`Corrupt`, with its place."""
    batch = bytes(make_batch(3))
    with pytest.raises(Corrupt, match="offset 3"):
        read_batch(Bytes(batch[:-1]), 0, read_header(batch))
