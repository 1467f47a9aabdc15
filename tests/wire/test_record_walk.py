"""Walking records agrees with decoding them, on whole records and on damaged ones."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.wire.batch import HEADER_BYTES, Header, Record, build_batch, iter_records, read_header
from stratalog.wire.errors import Corrupt
from stratalog.wire.record_walk import walk_records

blobs = st.none() | st.binary(max_size=150)
names = st.text(max_size=5) | st.just(b"gr\xf6\xdfe".decode("utf-8", "surrogateescape"))
headers = st.lists(st.builds(Header, names, blobs), max_size=2)
times = st.integers(-(2**40), 2**40) | st.just(2**63 - 1 - 2**41) | st.just(-(2**63) - 2**41)
rows = st.lists(st.tuples(times, blobs, blobs, headers), min_size=1, max_size=8)


def built(found):
    records = [Record(7 + at, 2**41 + t, k, v, tuple(h)) for at, (t, k, v, h) in enumerate(found)]
    return build_batch(records)


def decoded(batch):
    """The expected output of `walk_records`, by the decoder."""
    base = read_header(batch).base_offset
    return [(each.offset - base, each.timestamp_ms, each.key is not None) for each in iter_records(batch)]


def walked(batch):
    return list(walk_records(read_header(batch), bytes(batch[HEADER_BYTES:])))


@given(rows)
def test_every_record_is_seen_as_the_decoder_sees_it(found):
    """The delta of its offset, its time, and whether it has a key."""
    batch = built(found)
    assert walked(batch) == decoded(batch)


@given(rows, st.data())
def test_records_refused_by_the_decoder_are_refused_and_no_others(found, data):
    """Bytes changed, cut or added, and a count that is not that of the records."""
    batch = built(found)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    count = data.draw(st.just(len(found)) | st.integers(-1, 9))
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    expected = Corrupt
    with suppress(Corrupt):
        expected = decoded(batch)
    if expected is Corrupt:
        with pytest.raises(Corrupt, match="at offset 7"):
            walked(batch)
    else:
        assert walked(batch) == expected
