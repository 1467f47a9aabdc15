"""Record batches, format v2 (KIP-98; Kafka's DefaultRecordBatch and DefaultRecord)."""

import io
from struct import pack

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as TheirBatch
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.wire.batch import (
    CRC_START,
    HEADER_BYTES,
    Header,
    Record,
    assign_offset,
    build_batch,
    build_control_batch,
    check_batch,
    iter_headers,
    iter_records,
    read_header,
    rewrite_timestamp,
)
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt

blobs = st.none() | st.binary(max_size=200)
headers = st.lists(st.builds(Header, st.text(max_size=10), blobs), max_size=3).map(tuple)


@st.composite
def record_lists(draw):
    offset = draw(st.integers(0, 2**40))
    out = []
    for _ in range(draw(st.integers(1, 12))):
        out.append(Record(offset, draw(st.integers(0, 2**42)), draw(blobs), draw(blobs), draw(headers)))
        offset += draw(st.integers(1, 3))
    return out


@given(record_lists(), st.sampled_from(Codec))
def test_records_come_back_as_they_were_built(records, codec):
    """Any records, any codec: what was built is what is read."""
    batch = build_batch(records, codec=codec)
    header = check_batch(batch)
    assert header.codec is codec
    assert header.record_count == len(records)
    assert header.next_offset == records[-1].offset + 1
    assert header.max_timestamp == max(record.timestamp_ms for record in records)
    assert list(iter_records(batch)) == records


@given(record_lists(), st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4]))
@settings(max_examples=20, deadline=None)
def test_another_decoder_reads_our_batches(records, codec):
    """aiokafka sees the same offsets, times, keys, values and headers."""
    theirs = TheirBatch(bytes(build_batch(records, codec=codec)))
    assert theirs.validate_crc()
    for got, want in zip(theirs, records, strict=True):
        assert (got.offset, got.timestamp, got.key, got.value) == want[:4]
        assert tuple(got.headers) == want.headers


def test_a_time_beyond_64_bits_wraps_as_javas_does():
    """A client may write any base and any delta: an answer with the sum of both could not be encoded."""
    batch = build_batch([Record(0, 0, None, b"v"), Record(1, 2**63 - 1, None, b"v")])
    batch[27:35] = pack(">q", 10)
    assert [record.timestamp_ms for record in iter_records(batch)] == [10, -(2**63) + 9]
    late, early = Record(0, 2**62, None, b"v"), Record(1, -(2**63) + 9, None, b"v")
    assert list(iter_records(build_batch([late, early]))) == [late, early]


def test_a_header_may_have_any_name():
    """C clients write Latin-1 in headers; the bytes come back as they were, and Java reads U+FFFD."""
    header = Header(b"gr\xf6\xdfe".decode("utf-8", "surrogateescape"), b"1")
    batch = build_batch([Record(0, 0, None, b"v", (header,))])
    assert b"gr\xf6\xdfe" in batch
    (record,) = iter_records(batch)
    assert record.headers == (header,)
    assert record.headers[0].key_bytes == b"gr\xf6\xdfe"


def test_header_layout_is_kafkas():
    """61 bytes, big-endian, in Kafka's order."""
    batch = build_batch([Record(7, 1000, b"k", b"v")], leader_epoch=3, producer_id=9, producer_epoch=2, base_sequence=5)
    body = bytes.fromhex("10000000026b027600")
    tail = pack(">hiqqqhii", 0, 0, 1000, 1000, 9, 2, 5, 1) + body
    assert bytes(batch) == pack(">qiibI", 7, 49 + len(body), 3, 2, crc32c(tail)) + tail
    assert len(batch) == HEADER_BYTES + len(body)


def test_offset_and_epoch_lie_outside_the_crc():
    """A leader rewrites both without touching the checksum."""
    batch = build_batch([Record(0, 1, None, b"v")])
    length = read_header(batch).batch_length
    assign_offset(batch, 0, 4711, length, 12)
    header = check_batch(batch)
    assert header.batch_length == length
    assert (header.base_offset, header.partition_leader_epoch) == (4711, 12)


def test_log_append_time_rewrites_the_crc():
    """The broker's time replaces every record's, and the batch still verifies."""
    batch = build_batch([Record(0, 5, None, b"a"), Record(1, 9, None, b"b")])
    rewrite_timestamp(batch, 0, 777)
    assert check_batch(batch).is_log_append_time
    assert [record.timestamp_ms for record in iter_records(batch)] == [777, 777]


def test_end_of_transaction_marker_is_78_bytes():
    """A commit marker: control and transactional bits, key (0, 1), value (0, coordinator epoch)."""
    marker = build_control_batch(
        1, pack(">hi", 0, 4), offset=9, timestamp_ms=1, leader_epoch=0, producer_id=1, producer_epoch=0,
        transactional=True,
    )  # fmt: skip
    header = check_batch(marker)
    assert len(marker) == 78
    assert header.is_control
    assert header.is_transactional
    assert [record.key for record in iter_records(marker)] == [b"\0\0\0\1"]


@given(st.data())
def test_any_flipped_bit_behind_the_crc_is_found(data):
    """CRC-32C catches every single-bit error in what it covers."""
    batch = build_batch([Record(0, 5, b"key", b"value" * 9)])
    at = data.draw(st.integers(CRC_START * 8, len(batch) * 8 - 1))
    batch[at // 8] ^= 1 << at % 8
    with pytest.raises(Corrupt, match="CRC"):
        check_batch(batch)


@given(record_lists(), st.data())
def test_damaged_records_raise_corrupt_and_nothing_else(records, data):
    """A batch with three bytes of its payload changed is read as records or refused with `Corrupt`."""
    batch = build_batch(records, codec=data.draw(st.sampled_from(Codec)))
    for _ in range(3):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        list(iter_records(batch))
    except Corrupt as error:
        assert "offset" in str(error) or "block" in str(error)


def test_short_and_foreign_bytes_are_refused():
    """Too short, wrong magic, a length beyond the buffer: each names its position."""
    batch = build_batch([Record(0, 5, None, b"v")])
    with pytest.raises(Corrupt, match="less than a batch header"):
        read_header(batch, 20)
    with pytest.raises(Corrupt, match="are there"):
        check_batch(batch[:-1])
    batch[16] = 1
    with pytest.raises(Corrupt, match="magic 1"):
        check_batch(batch)


def test_a_record_count_that_cannot_be_true_is_refused():
    """2**31-1 records in 70 bytes never reach the loop."""
    batch = build_batch([Record(0, 5, None, b"v")])
    batch[57:61] = b"\x7f\xff\xff\xff"
    with pytest.raises(Corrupt, match="claims 2147483647 records"):
        list(iter_records(batch))


def test_walking_headers_stops_at_a_torn_batch():
    """Whole batches are listed with their positions, the torn tail is not."""
    log = io.BytesIO()
    for offset in (0, 1, 2):
        log.write(build_batch([Record(offset, 5, None, b"v" * 50)]))
    data = log.getvalue()
    size = len(data) // 3
    walked = list(iter_headers(data[:-1]))
    assert [(position, header.base_offset) for position, header in walked] == [(0, 0), (size, 1)]
    with pytest.raises(Corrupt, match="claims 1 bytes"):
        list(iter_headers(data[:8] + pack(">i", 1) + data[12:]))
