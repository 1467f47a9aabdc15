from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.objects.record_runs import RecordCounter, measure_records
from stratalog.wire.batch import HEADER_BYTES, Record, build_batch
from stratalog.wire.errors import Corrupt


@given(st.binary(max_size=60))
def test_any_bytes_are_records_or_corrupt(payload):
    """No input loops or raises anything else."""
    try:
        count, lowest = measure_records(payload)
    except Corrupt:
        return
    assert count <= len(payload) // 7
    assert lowest <= 0


def walk(payload):
    """The expected result of `measure_records`, record by record, as the format says it."""

    def varint(at):
        value = shift = 0
        while True:
            byte = payload[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), at

    count = lowest = at = 0
    while at < len(payload):
        length, at = varint(at)
        lowest = min(lowest, varint(at + 1)[0])
        at += length
        count += 1
    return count, lowest


@pytest.mark.story
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 1, 100, 5000, 20_000]),  # bytes of the value
            st.sampled_from([0, 0, 0, 3, 70, 10**6, -1, -70, -(10**9)]),  # of time after the first
            st.integers(1, 150),  # such records in a row
        ),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
def test_runs_of_equal_records_are_measured_like_single_ones(runs, data):
    """Any mixture of lengths and times gives the count and the time of a walk; a torn end is found."""
    records = []
    for size_bytes, delta_ms, count in runs:
        for _ in range(min(count, 1 + 200_000 // (size_bytes + 1))):
            records.append(Record(len(records), 10**12 + (delta_ms if records else 0), None, bytes(size_bytes)))
    payload = bytes(build_batch(records)[HEADER_BYTES:])
    assert measure_records(payload) == walk(payload)
    assert measure_records(payload)[0] == len(records)
    torn = payload[: data.draw(st.integers(1, len(payload) - 1))]
    try:
        count, _ = measure_records(torn)
    except Corrupt:
        return
    assert walk(torn)[0] == count < len(records)  # cut between two records


@pytest.mark.parametrize("length", [bytes([10]), bytes([0x8A, 0x00]), bytes([0x8A, 0x80, 0x00])])
def test_a_length_too_small_for_a_record_is_found_however_it_is_written(length):
    """Also where many such records stand in a row."""
    with pytest.raises(Corrupt, match="length of 5"):
        measure_records((length + bytes(5)) * 20)


def test_long_records_and_far_timestamps_are_measured():
    """Lengths and deltas of several varint bytes are read as such."""
    batch = build_batch([Record(0, 10**12, None, bytes(70_000)), Record(1, 5, b"", None)], leader_epoch=0)
    assert measure_records(bytes(batch[HEADER_BYTES:])) == (2, 5 - 10**12)


def payload_of(runs, start=0):
    """The records of a batch: ``runs`` of (bytes of the value, time after the first, how many)."""
    records = []
    for size_bytes, delta_ms, count in runs:
        for _ in range(min(count, 1 + 100_000 // (size_bytes + 1))):
            records.append(Record(len(records), 10**12 + (delta_ms if records else 0), None, bytes(size_bytes)))
    return bytes(build_batch(records)[HEADER_BYTES:])


kinds = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 100, 101, 5000]),  # bytes of the value
        st.sampled_from([0, 0, 0, 3, 70, -1, -70]),  # of time after the first
        st.integers(1, 150),  # such records in a row
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.story
@given(st.lists(kinds, min_size=1, max_size=4), st.data())
def test_earlier_batches_do_not_change_the_measure(batches, data):
    """A batch, whole or damaged, gets behind others the count or the refusal that a first batch gets."""
    counter = RecordCounter()
    for runs in batches:
        payload = payload_of(runs)
        for given_bytes in (payload, *damaged(payload, data), payload):
            assert outcome(counter.measure, memoryview(given_bytes)) == outcome(measure_records, given_bytes)


def damaged(payload, data):
    """The payload cut short, and with one byte changed: often one of a length or of a time."""
    yield payload[: data.draw(st.integers(0, len(payload) - 1))]
    changed = bytearray(payload)
    changed[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    yield bytes(changed)


def outcome(measure, payload):
    """Its result or its error."""
    try:
        return measure(payload)
    except Corrupt as error:
        return str(error)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_batch_like_the_one_before_but_for_one_byte_is_looked_at(place):
    """A record in the midst of a run whose length, its second byte or its time differ."""
    payload = bytearray(payload_of([(100, 0, 60)]))
    size_bytes = len(payload) // 60
    counter = RecordCounter()
    assert counter.measure(memoryview(payload)) == (60, 0)
    payload[30 * size_bytes + place] ^= 3
    assert outcome(counter.measure, memoryview(payload)) == outcome(measure_records, bytes(payload)) != (60, 0)


def test_a_shorter_and_a_longer_batch_of_the_same_kind_are_counted():
    """The number of records in a batch follows the traffic; their lengths do not."""
    counter = RecordCounter()
    for count in (60, 40, 63, 200, 1, 5000, 7):
        payload = payload_of([(10, 0, count)])
        assert counter.measure(memoryview(payload)) == (count, 0)
