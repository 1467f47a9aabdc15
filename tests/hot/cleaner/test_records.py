"""Tests of hot/cleaner/records.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.cleaner.records import (
    batch_payload,
    emptied_batch,
    rebuilt_batch,
    record_places,
    record_spans,
)
from stratalog.wire.batch import (
    BATCH_HEADER,
    HEADER_BYTES,
    Header,
    Record,
    build_batch,
    check_batch,
    iter_records,
    read_header,
)
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt

BYTES = st.one_of(st.none(), st.binary(max_size=5), st.binary(min_size=100, max_size=300))
HEADERS = st.lists(st.builds(Header, st.text(max_size=5), BYTES), max_size=2).map(tuple)


@st.composite
def batches(draw):
    """A batch at some base offset, with gaps between its offsets and times that go back and forth."""
    base, start = draw(st.integers(0, 1 << 40)), draw(st.integers(0, 1 << 41))
    deltas = sorted({0, *draw(st.lists(st.integers(0, 1 << 20), max_size=6))})
    records = [
        Record(base + delta, start + draw(st.integers(-5_000_000, 5_000_000)), draw(BYTES), draw(BYTES), draw(HEADERS))
        for delta in deltas
    ]
    return build_batch(
        records,
        codec=draw(st.sampled_from(list(Codec))),
        leader_epoch=3,
        producer_id=9,
        producer_epoch=2,
        base_sequence=77,
        transactional=draw(st.booleans()),
        log_append_time_ms=draw(st.sampled_from([None, 1 << 41])),
    )


def opened(batch):
    header = read_header(batch)
    payload = batch_payload(header, memoryview(batch))
    return header, payload, record_spans(header, payload)


@given(batches())
def test_spans_are_the_records(batch):
    """Keys, offsets, and whether there is a value."""
    header, payload, spans = opened(batch)
    records = list(iter_records(batch))
    assert [(header.base_offset + delta, key, has_value) for *_, delta, key, has_value in spans] == [
        (record.offset, record.key, record.value is not None) for record in records
    ]
    assert record_places(header, payload) == [(*span[:4], None, True) for span in spans]


@given(batches(), st.data())
def test_a_rebuilt_batch_holds_what_was_kept_as_it_was(batch, data):
    """Its last offset and sequences, too, and the largest time of what is left."""
    header, payload, spans = opened(batch)
    kept = data.draw(st.lists(st.sampled_from(range(len(spans))), min_size=1, unique=True).map(sorted))
    horizon = data.draw(st.sampled_from([None, 0, 1 << 41, (1 << 41) + 10]))
    rebuilt = rebuilt_batch(header, payload, [spans[number] for number in kept], horizon)
    after = check_batch(rebuilt)
    records = list(iter_records(batch))
    expected = [records[number] for number in kept]
    assert list(iter_records(rebuilt)) == expected
    assert after.max_timestamp == max(record.timestamp_ms for record in expected)
    assert after.has_delete_horizon == (horizon is not None)
    assert after.base_timestamp == (header.base_timestamp if horizon is None else horizon)
    same = {
        "base_offset", "partition_leader_epoch", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence",
        "codec", "is_transactional", "is_log_append_time",
    }  # fmt: skip
    assert {name: getattr(after, name) for name in same} == {name: getattr(header, name) for name in same}


@given(batches())
def test_an_emptied_batch_keeps_the_sequence_of_its_producer(batch):
    """Everything of its header but the records, their codec and the first one's time."""
    header = read_header(batch)
    emptied = emptied_batch(header)
    after = check_batch(emptied)
    assert len(emptied) == HEADER_BYTES
    assert list(iter_records(emptied)) == []
    assert (after.last_offset, after.max_timestamp, after.base_sequence) == (
        header.last_offset, header.max_timestamp, header.base_sequence,
    )  # fmt: skip
    assert (after.producer_id, after.producer_epoch, after.is_transactional) == (9, 2, header.is_transactional)


@given(batches(), st.data())
def test_damaged_records_are_refused_or_within_bounds(batch, data):
    """Never another error, whatever the bytes: what was never opened before may hold anything."""
    header = read_header(batch)
    payload = bytearray(batch_payload(header, memoryview(batch)))
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(at, len(payload)))
    for parse in (record_spans, record_places):
        try:
            spans = parse(header, bytes(payload[:cut]))
        except Corrupt:
            continue
        assert all(end <= cut and delta <= header.last_offset_delta for _, end, _, delta, *_ in spans)


def test_more_records_than_the_header_says_are_damage():
    """And fewer."""
    batch = build_batch([Record(0, 1, b"a", b"b"), Record(1, 1, b"a", b"b")])
    header, payload, _ = opened(batch)
    for count in (1, 3):
        for parse in (record_spans, record_places):
            with pytest.raises(Corrupt):
                parse(header._replace(record_count=count), payload)


def test_a_batch_that_names_no_codec_is_corrupt():
    """Attributes 7."""
    batch = build_batch([Record(0, 1, b"a", b"b")])
    header = read_header(batch)
    BATCH_HEADER.pack_into(batch, 0, *header._replace(attributes=7))
    with pytest.raises(Corrupt):
        batch_payload(read_header(batch), memoryview(batch))


def test_a_batch_too_large_to_open_is_named_by_its_offset(monkeypatch):
    """Too many bytes, or a header that claims more records than their places have room for in memory."""
    batch = build_batch([Record(42, 0, b"k", bytes(10_000)), Record(43, 0, b"k", b"")], codec=Codec.ZSTD)
    header = read_header(batch)
    monkeypatch.setattr("stratalog.hot.cleaner.records.DECOMPRESSED_BYTES_MAX", 1000)
    with pytest.raises(Corrupt, match="the batch at offset 42: a zstd block grows beyond its limit"):
        batch_payload(header, memoryview(batch))
    monkeypatch.setattr("stratalog.hot.cleaner.records._RECORDS_MAX", 1)
    with pytest.raises(Corrupt, match="the batch at offset 42 claims 2 records"):
        batch_payload(header, memoryview(batch))


@pytest.mark.parametrize(("timestamp_ms", "fits"), [(-(1 << 63) + 500, True), (-(1 << 63) + 499, False)])
def test_a_record_too_old_for_a_horizon_keeps_its_batch_without_one(timestamp_ms, fits):
    """Its time could not be said from there, and a tombstone that stays costs less than a compaction that ends."""
    batch = build_batch([Record(4, timestamp_ms, b"k", None)])
    rebuilt = rebuilt_batch(*opened(batch), 500)
    header = check_batch(rebuilt)
    assert header.has_delete_horizon is fits
    assert [record.timestamp_ms for record in iter_records(rebuilt)] == [timestamp_ms]


@pytest.mark.parametrize("zigzag", [1, 3, 99])
def test_a_negative_length_is_that_of_a_null(zigzag):
    """Also one that is not -1, as Kafka and every reader of ours have it: such a key has no bytes, and such a value is none."""
    body = bytes([0, 0, 0, zigzag, zigzag, 0])
    header = read_header(build_batch([Record(7, 1, None, None)], leader_epoch=0))
    assert record_spans(header, bytes([2 * len(body)]) + body) == [(0, 7, 0, 0, None, False)]
