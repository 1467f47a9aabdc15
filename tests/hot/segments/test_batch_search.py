"""Tests of hot/segments/batch_search.py."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.segments.batch_search import BatchSearch, TimestampOffset
from stratalog.wire.batch import HEADER_BYTES, Record, build_batch
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt


def batch_of(*moments, value=b"v", **options):
    records = [Record(offset, moment, None, value) for offset, moment in enumerate(moments, 100)]
    return bytes(build_batch(records, leader_epoch=7, **options))


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=12),
    st.integers(-1, 21),
    st.integers(98, 114),
    st.integers(98, 114),
    st.sampled_from(Codec),
)
def test_the_first_record_in_the_range_is_found(moments, wanted, start, end, codec):
    """At or after the time, not below the start and below the end; else what was named for that case."""
    otherwise = TimestampOffset(9, 9, 9)
    search = BatchSearch(batch_of(*moments, codec=codec), wanted, start, end, otherwise)
    expected = next(
        (
            TimestampOffset(moment, offset, 7)
            for offset, moment in enumerate(moments, 100)
            if moment >= wanted and start <= offset < end
        ),
        otherwise,
    )
    assert pickle.loads(pickle.dumps(search)).find() == expected
    assert search.next_offset == 100 + len(moments)


@pytest.mark.parametrize(
    ("batch", "small"),
    [
        (batch_of(1, 2, 3), True),
        (batch_of(*range(1000)), True),
        (batch_of(*range(1001)), False),
        (batch_of(1, value=b"v" * (64 << 10)), False),
        (batch_of(1, 2, codec=Codec.ZSTD), False),
    ],
)
def test_large_and_compressed_batches_are_not_small(batch, small):
    """Many records, many bytes, or compressed bytes, which may become many."""
    assert BatchSearch(batch, 0, 0, 1).small is small


def test_a_damaged_batch_raises_corrupt():
    """No batch is made up from it."""
    batch = bytearray(batch_of(1, 2, codec=Codec.GZIP))
    batch[HEADER_BYTES] ^= 0xFF
    with pytest.raises(Corrupt):
        BatchSearch(bytes(batch), 0, 0, 200).find()
