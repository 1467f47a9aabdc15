"""Tests of hot/damage.py."""

from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.hot.damage import empty_batch, find_batch, misplaced
from stratalog.wire.batch import Record, build_batch, check_batch, iter_records


def batch(base: int) -> bytes:
    return bytes(build_batch([Record(base, 5, None, b"\x02" * 30)]))


@given(st.binary(max_size=100), st.binary(max_size=100))
@settings(max_examples=60)
def test_a_good_batch_is_found_behind_any_bytes(before, after):
    """The end of the last one is what counts."""
    assert find_batch(before + batch(70) + batch(71) + after, 60) == 72


@given(st.binary(max_size=300))
@settings(max_examples=60)
def test_nothing_is_found_in_noise(data):
    """A CRC does not fit by chance."""
    assert find_batch(data, 0) is None


def test_batches_below_the_expected_offset_do_not_count():
    """An old block is no proof of later data."""
    assert find_batch(batch(5), 6) is None
    assert find_batch(bytes(4096) + batch(6), 6) == 7
    assert find_batch(batch(6)[:-1], 6) is None


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
