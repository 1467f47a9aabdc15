"""Tests of hot/state/producer_snapshot.py."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.state.producer_snapshot import BatchMetadata, ProducerEntry, snapshot_from_bytes, snapshot_to_bytes
from stratalog.wire.errors import Corrupt


def entry(producer_id: int, last_offset: int) -> ProducerEntry:
    made = ProducerEntry(producer_id, 3, 2, 0x18BCFE56800, 17)
    made.remember(9, last_offset, 4, 0x18BCFE56800)
    return made


def test_a_producer_takes_46_bytes_behind_a_header_of_10():
    """Kafka's layout, field by field; the CRC covers the count and the entries."""
    data = snapshot_to_bytes([entry(5, 40)])
    assert data[:2] == b"\0\1"
    assert data[6:] == bytes.fromhex(
        "00000001"  # one producer
        "0000000000000005 0003 00000009 0000000000000028 00000004"  # id, epoch, last sequence and offset, delta
        "0000018bcfe56800 00000002 0000000000000011"  # timestamp, coordinator epoch, open since 17
    )
    from crc32c import crc32c

    assert int.from_bytes(data[2:6], "big") == crc32c(data[6:])


def test_the_first_sequence_of_a_batch_wraps_at_2_to_the_31():
    """Sequence 2 with five records began at 2³¹-2."""
    assert BatchMetadata(2, 100, 4, 0).first_sequence == 2**31 - 2
    assert BatchMetadata(2, 100, 4, 0).first_offset == 96


@given(st.lists(st.tuples(st.integers(0, 2**60), st.integers(-1, 2**60)), unique_by=lambda pair: pair[0], max_size=8))
def test_producers_survive_a_snapshot(pairs):
    """All that a snapshot keeps comes back: the last batch, epochs, the open transaction."""
    made = [entry(producer, offset) if offset >= 0 else ProducerEntry(producer) for producer, offset in pairs]
    assert snapshot_from_bytes(snapshot_to_bytes(made)) == made


def test_a_snapshot_has_all_batches_of_a_producer_and_kafka_takes_the_last():
    """The times of their records do not matter: an hour apart, or going back. The last row has the open transaction and the producer's time."""
    made = ProducerEntry(5, 3, 2, 1_000_000, 17)
    for number, timestamp_ms in enumerate([3_600_000, 7_200_000, 4, 10_800_000, 1_000_000]):
        made.remember(number, 10 + number, 0, timestamp_ms)
    other = ProducerEntry(6, 3, 2, 2**40, -1)
    other.remember(0, 1, 0, 0)
    nothing = ProducerEntry(7)
    data = snapshot_to_bytes([made, other, nothing])
    rows = [data[position : position + 46] for position in range(10, len(data), 46)]
    assert [int.from_bytes(row[-8:], signed=True) for row in rows] == [-1, -1, -1, -1, 17, -1, -1, -1]
    assert list({row[:8]: row for row in rows}.values()) == [rows[4], rows[6], rows[7]], "as Kafka reads it"
    assert snapshot_from_bytes(data) == [made, other, nothing]


def test_the_last_batch_of_many_producers_is_kept(monkeypatch):
    """A roll waits for the snapshot."""
    monkeypatch.setattr("stratalog.hot.state.producer_snapshot.ALL_BATCHES_MAX", 1)
    made = [ProducerEntry(number, 0, -1, 9, -1) for number in (1, 2)]
    for one in made:
        for sequence in range(3):
            one.remember(sequence, sequence, 0, 7)
    data = snapshot_to_bytes(made)
    assert len(data) == 10 + 2 * 46
    assert [one.last_sequence for one in snapshot_from_bytes(data)] == [2, 2]
    assert len(snapshot_from_bytes(snapshot_to_bytes(made[:1]))[0].batches) == 3


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(0, 9))
def test_a_producer_comes_back_with_its_last_five_batches(sizes, marker_ms):
    """They may be of any size, with a marker behind them or without."""
    made, offset = ProducerEntry(5, 3, 2, 100 + len(sizes) + marker_ms, -1), 0
    for number, size in enumerate(sizes, 1):
        offset += size
        made.remember(offset - 1, offset - 1, size - 1, 100 + number)
    (found,) = snapshot_from_bytes(snapshot_to_bytes([made]))
    assert found == made
    assert len(found.batches) == min(5, len(sizes))


@given(st.integers(0, 55), st.integers(1, 255))
def test_a_flipped_bit_is_noticed(at, mask):
    """Version, CRC, count and entries are all covered."""
    data = bytearray(snapshot_to_bytes([entry(5, 40)]))
    data[at] ^= mask
    with pytest.raises(Corrupt):
        snapshot_from_bytes(bytes(data))


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_refused_without_any_other_error(data):
    """Only `Corrupt` comes out."""
    with pytest.raises(Corrupt):
        snapshot_from_bytes(data)


@pytest.mark.story
def test_a_hundred_thousand_producers_take_a_hundred_megabytes_at_most():
    """A tenth of them, each with its five last batches, in a tenth of that."""
    tracemalloc.start()
    entries = {}
    for number in range(10_000):
        entry = entries[1_000_000 + number] = ProducerEntry(1_000_000 + number, 3, 0, 1_700_000_000_000 + number)
        for batch in range(7):
            entry.remember(1_000 * batch, 10**9 + 1_000 * number + batch, 9, 1_700_000_000_000 + batch)
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size_bytes <= 10_000_000
    assert [batch.last_sequence for batch in entry.batches] == [2_000, 3_000, 4_000, 5_000, 6_000]
