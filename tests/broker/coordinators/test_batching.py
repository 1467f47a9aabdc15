"""Writes of one turn as batches: neighbours together, transactions and markers in their places."""

import hypothesis.strategies as st
from hypothesis import given

from stratalog.broker.coordinators.batching import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    Marker,
    batch_of,
    grouped,
    parts_of,
)
from stratalog.metadata.coordination import CoordinatorRecord, Producer, Reply, Write
from stratalog.wire.batch import iter_records, read_header
from stratalog.wire.compression import Codec

PRODUCERS = st.sampled_from([None, None, Producer(1, 0), Producer(2, 5)])
WRITES = st.builds(
    lambda count, value, producer: Write(
        [CoordinatorRecord(b"k%d" % at, value) for at in range(count)], producer=producer
    ),
    st.integers(1, 2_000),
    st.sampled_from([None, b"v", b"v" * 400, b"v" * 2_000]),
    PRODUCERS,
)
MARKERS = st.builds(lambda: Marker(bytearray(b"m"), 2, "event", print))


@given(st.lists(st.one_of(WRITES, MARKERS), max_size=12))
def test_groups_keep_the_order_and_mix_nothing(queued):
    """Everything once, in order; a transaction's write alone; no group above the limit unless one write is."""
    groups = grouped(queued)
    flat = [one for group in groups for one in ([group] if isinstance(group, Marker) else group)]
    assert len(flat) == len(queued)
    assert all(one is other for one, other in zip(flat, queued, strict=True))
    for group in groups:
        if isinstance(group, Marker):
            continue
        assert len(group) == 1 or all(write.producer is None for write in group)
        records = [record for write in group for record in write.records]
        assert len(group) == 1 or len(records) <= BATCH_RECORDS_MAX
        assert len(group) == 1 or sum(len(key) + len(value or b"") for key, value in records) <= BATCH_BYTES_MAX


def test_a_write_of_too_many_records_is_cut_and_answered_with_its_last_part():
    """If its records may be split; any other is one batch, which holds as a whole or not at all."""
    records = [CoordinatorRecord(b"%d" % at, None) for at in range(BATCH_RECORDS_MAX + 1)]
    reply = Reply("token", response=None)
    parts = parts_of(Write(records, [reply], on_committed=["then"], divisible=True))
    assert [len(part.records) for part in parts] == [BATCH_RECORDS_MAX, 1]
    assert [record for part in parts for record in part.records] == records
    assert [(list(part.replies), list(part.on_committed)) for part in parts] == [([], []), ([reply], ["then"])]
    for whole in (Write(records), Write(records, producer=Producer(1, 1))):
        assert parts_of(whole) == [whole]


def test_a_write_of_too_many_bytes_is_cut():
    """A key has the group's id, of up to 32 kB: a few thousand offsets were more than a segment, and could never be deleted."""
    records = [CoordinatorRecord(b"%05d" % at + bytes(30_000), None) for at in range(100)]
    records.append(CoordinatorRecord(b"large", bytes(2 * BATCH_BYTES_MAX)))
    parts = parts_of(Write(records, divisible=True))
    assert [record for part in parts for record in part.records] == records
    assert all(sum(len(key) for key, _ in part.records) <= BATCH_BYTES_MAX for part in parts)
    assert [len(part.records) for part in parts] == [34, 34, 32, 1]


def test_a_batch_holds_the_records_of_all_its_writes():
    """With the time they were written at, and the producer they belong to."""
    one = Write([CoordinatorRecord(b"a", b"1"), CoordinatorRecord(b"b", None)])
    other = Write([CoordinatorRecord(b"c", b"3")])
    batch = batch_of([one, other], Codec.GZIP, 77)
    found = [(record.key, record.value, record.timestamp_ms) for record in iter_records(batch)]
    assert found == [(b"a", b"1", 77), (b"b", None, 77), (b"c", b"3", 77)]
    assert not read_header(batch).is_transactional
    header = read_header(batch_of([Write([CoordinatorRecord(b"a", b"1")], producer=Producer(9, 2))], Codec.NONE, 1))
    assert (header.producer_id, header.producer_epoch, header.is_transactional) == (9, 2, True)
