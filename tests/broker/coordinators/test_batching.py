"""Writes of one turn as batches: neighbours together, transactions and markers in their places."""

import random

import hypothesis.strategies as st
import pytest
from hypothesis import given

from stratalog.broker.coordinators import batching
from stratalog.broker.coordinators.batching import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    TURN_BYTES_MAX,
    Marker,
    batch_of,
    count_of_turn,
    grouped,
    parts_of,
)
from stratalog.metadata.coordination import CoordinatorRecord, Producer, Reply, Write
from stratalog.wire.batch import iter_records, read_header
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode, KafkaError

PRODUCERS = st.sampled_from([None, None, Producer(1, 0), Producer(2, 5)])
WRITES = st.builds(
    lambda count, value, producer: Write(
        [CoordinatorRecord(b"k%d" % at, value) for at in range(count)], producer=producer
    ),
    st.integers(1, 2_000),
    st.sampled_from([None, b"v", b"v" * 400, b"v" * 2_000]),
    PRODUCERS,
)
SEGMENT_BYTES = 100 << 20
MARKERS = st.builds(lambda: Marker(bytearray(b"m"), 2, "event", print))


@given(st.lists(st.one_of(WRITES, MARKERS), max_size=12))
def test_groups_keep_the_order_and_mix_nothing(queued):
    """Everything once, in order; a transaction's write alone; no group above the limit unless one write is."""
    groups = grouped(queued, SEGMENT_BYTES)
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
    parts = parts_of(Write(records, [reply], on_committed=["then"], divisible=True), SEGMENT_BYTES)
    assert [len(part.records) for part in parts] == [BATCH_RECORDS_MAX, 1]
    assert [record for part in parts for record in part.records] == records
    assert [(list(part.replies), list(part.on_committed)) for part in parts] == [([], []), ([reply], ["then"])]
    for whole in (Write(records), Write(records, producer=Producer(1, 1))):
        assert parts_of(whole, SEGMENT_BYTES) == [whole]


def test_a_write_of_too_many_bytes_is_cut():
    """A key has the group's id, of up to 32 kB: a few thousand offsets were more than a segment, and could never be deleted."""
    records = [CoordinatorRecord(b"%05d" % at + bytes(30_000), None) for at in range(100)]
    records.append(CoordinatorRecord(b"large", bytes(2 * BATCH_BYTES_MAX)))
    parts = parts_of(Write(records, divisible=True), SEGMENT_BYTES)
    assert [record for part in parts for record in part.records] == records
    assert all(sum(len(key) for key, _ in part.records) <= BATCH_BYTES_MAX for part in parts)
    assert [len(part.records) for part in parts] == [34, 34, 32, 1]


@given(
    st.lists(st.tuples(st.integers(0, 700), st.none() | st.integers(0, 300)), min_size=1, max_size=60),
    PRODUCERS,
    st.booleans(),
)
def test_no_batch_is_larger_than_a_segment(sizes, producer, divisible):
    """A refused one costs the shard its state, and is asked for again by the next: so what is not to be split is, if it must."""
    records = [CoordinatorRecord(bytes(key), None if value is None else bytes(value)) for key, value in sizes]
    write = Write(records, [Reply("token", response=None)], producer, ["then"], divisible=divisible)
    try:
        parts = parts_of(write, 1_000)
    except KafkaError as error:
        assert error.code is ErrorCode.RECORD_LIST_TOO_LARGE
        assert max(key + (value or 0) for key, value in sizes) > 1_000 - 61 - 32
        return
    assert [record for part in parts for record in part.records] == records
    assert all(len(batch_of([part], Codec.NONE, 1)) <= 1_000 for part in parts)
    assert all(part.producer == producer for part in parts)
    assert [len(part.replies) + len(part.on_committed) for part in parts] == [0] * (len(parts) - 1) + [2]


def test_a_record_that_is_packed_may_be_larger_than_a_segment():
    """It has an append of its own; one that stays too large is refused as ever."""
    small, large = CoordinatorRecord(b"s", b"v"), CoordinatorRecord(b"k", bytes(5_000))
    parts = parts_of(Write([small, large, small], divisible=True), 1_000, Codec.GZIP)
    assert [part.records for part in parts] == [[small], [large], [small]]
    mixed = CoordinatorRecord(b"m", random.Random(1).randbytes(5_000))
    with pytest.raises(KafkaError, match="a record of 5033 bytes does not fit"):
        parts_of(Write([small, mixed, large]), 1_000, Codec.GZIP)


def test_no_batch_is_larger_than_what_a_load_unpacks(monkeypatch):
    """A segment may be larger than that."""
    monkeypatch.setattr(batching, "DECOMPRESSED_BYTES_MAX", 1_000)
    write = Write([CoordinatorRecord(b"k", bytes(400))] * 3)
    assert [len(part.records) for part in parts_of(write, 10_000, Codec.GZIP)] == [2, 1]
    assert parts_of(write, 10_000) == [write]
    with pytest.raises(KafkaError, match="a record of 1033 bytes does not fit"):
        parts_of(Write([CoordinatorRecord(b"k", bytes(1_000))]), 10_000, Codec.GZIP)


def test_a_turn_takes_what_it_can_append_soon():
    """At least one write, however large, and markers, which are small."""
    large = Write([CoordinatorRecord(b"k", bytes(TURN_BYTES_MAX))])
    small = Write([CoordinatorRecord(b"k", b"v")])
    marker = Marker(bytearray(b"m"), 2, "event", print)
    assert count_of_turn([large, small]) == 1
    assert count_of_turn([small, marker, large, marker]) == 2
    assert count_of_turn([small, marker] * 1_000) == 2_000
    tombstones = Write([CoordinatorRecord(b"k", None)] * BATCH_RECORDS_MAX)
    assert count_of_turn([tombstones] * 9) == 2
    assert count_of_turn([small] * 20_000) == 2 * BATCH_RECORDS_MAX
    assert count_of_turn([]) == 0


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
