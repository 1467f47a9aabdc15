"""Tests of hot/recovery/damage.py."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.recovery.damage import Placing, empty_batch, find_batch, misplaced
from stratalog.wire.batch import Record, build_batch, check_batch, iter_records


def batch(base: int) -> bytes:
    return bytes(build_batch([Record(base, 5, None, b"\x02" * 30)]))


def due(offset: int, *, gaps_below: int = 0, limit: int = 1 << 30) -> Placing:
    return Placing(offset, gaps_below, limit)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_a_good_batch_is_found_behind_any_bytes(before, after):
    """The end of the last one is what counts."""
    assert find_batch(before + b"-" + batch(70) + batch(71) + after, due(60)) == 72


@given(st.binary(max_size=300))
def test_no_header_is_found_in_noise(data):
    """A CRC does not fit by chance."""
    assert find_batch(data, due(0)) is None


def test_batches_below_the_expected_offset_do_not_count():
    """An old block is no proof of later data."""
    assert find_batch(b"-" + batch(5), due(6)) is None
    assert find_batch(bytes(4096) + batch(6), due(6)) == 7
    assert find_batch(batch(6)[:-1], due(6)) is None


@pytest.mark.parametrize("bit", range(64))
@pytest.mark.parametrize("number", range(4))
def test_a_flipped_bit_of_a_base_offset_moves_no_log_end(number, bit):
    """The CRC does not cover it: a batch that follows another one begins where that one ends."""
    batches = [batch(70 + at) for at in range(4)]
    header = bytearray(batches[number])
    header[bit // 8] ^= 0x80 >> bit % 8
    batches[number] = bytes(header)
    assert find_batch(b"".join(batches), due(70)) == 74
    if number:
        assert find_batch(b"-" + b"".join(batches), due(60)) == 74


def test_gaps_are_accepted_where_the_cleaner_was():
    """And no further than that."""
    assert find_batch(batch(70) + batch(90), due(70, gaps_below=90)) == 91
    assert find_batch(batch(70) + batch(90), due(70, gaps_below=89)) == 72


def test_bytes_like_headers_everywhere_are_searched_in_bounded_time():
    """How much goes through CRCs is bounded."""
    header = bytearray(empty_batch(0, 2, 0))
    header[8:12] = (4 << 20).to_bytes(4, "big")
    started = time.monotonic()
    assert find_batch(bytes(header) * 200_000, due(1, limit=9)) is None
    assert time.monotonic() - started < 20


def test_an_empty_batch_covers_a_range_of_offsets():
    """A valid batch without records, without a producer, without times."""
    made = empty_batch(100, 250, 4)
    header = check_batch(made)
    assert (header.base_offset, header.next_offset, header.record_count) == (100, 250, 0)
    assert (header.partition_leader_epoch, header.max_timestamp, header.producer_id) == (4, -1, -1)
    assert list(iter_records(made)) == []


def test_a_valid_batch_may_be_misplaced():
    """Beyond the end of its segment, or of an epoch that was over."""
    header = check_batch(empty_batch(100, 110, 4))
    assert misplaced(header, 109, 4) == ""
    assert "beyond" in misplaced(header, 108, 4)
    assert "epoch 4 follows epoch 5" in misplaced(header, 109, 5)
    assert misplaced(header._replace(partition_leader_epoch=-1), 109, 5) == ""
    assert "cannot be" in misplaced(header._replace(partition_leader_epoch=-2), 109, 5)
    assert "cannot be" in misplaced(header, 109, 2, epoch_max=3)
    assert misplaced(header, 109, 2, epoch_max=4) == ""
