"""Batches that are opened before they are appended."""

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.wire import rework as rework_module
from stratalog.wire.batch import (
    BATCH_HEADER,
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    Record,
    build_batch,
    check_batch,
    iter_records,
    read_header,
)
from stratalog.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, compress
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.record_rules import RecordRules, RecordsRefused
from stratalog.wire.rework import needs_rework, opened_bytes_max, rework

LIMIT = 16 << 20
ANY = RecordRules("t-0")
KEYED = RecordRules("t-0", keys_required=True)
RECORDS = [Record(0, 1000, b"k", b"value" * 40), Record(1, 900, b"l", None)]


def resealed(batch, byte):
    """The batch with another first byte of its records, and a CRC that fits."""
    batch[HEADER_BYTES] = byte
    fields = read_header(batch)._replace(crc=crc32c(memoryview(batch)[CRC_START:]))
    BATCH_HEADER.pack_into(batch, 0, *fields)
    return batch


@given(st.sampled_from(Codec), st.sampled_from(Codec))
@settings(max_examples=25, deadline=None)
def test_another_codec_keeps_offsets_times_and_producer(old, new):
    """Topic compression.type other than the producer's: the batch is re-encoded, offsets and times kept."""
    batch = build_batch(RECORDS, codec=old, producer_id=7, producer_epoch=1, base_sequence=3, transactional=True)
    out = rework(batch, new, ANY, LIMIT)
    before, after = check_batch(batch), check_batch(out)
    assert after.codec is new
    assert list(iter_records(out)) == RECORDS
    assert after[6:] == before[6:]
    assert after.is_transactional


def test_a_compacted_topic_refuses_records_without_a_key():
    """INVALID_RECORD, naming the record."""
    batch = build_batch([RECORDS[0], Record(1, 5, None, b"v")])
    with pytest.raises(RecordsRefused, match="without key in topic partition t-0") as caught:
        rework(batch, None, KEYED, LIMIT)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in caught.value.record_errors] == [1]
    assert rework(build_batch(RECORDS), None, KEYED, LIMIT) == build_batch(RECORDS)


@given(st.sampled_from(Codec), st.sampled_from([None, *Codec]), st.lists(st.integers(-64, 63), min_size=2, max_size=2))
@settings(max_examples=25, deadline=None)
def test_records_that_a_client_has_numbered_otherwise_are_numbered_from_0_on(old, new, deltas):
    """Kafka numbers those anew that it compresses. Two records at one offset would be one to their readers."""
    plain = build_batch(RECORDS)
    for at, delta in zip(
        (HEADER_BYTES, HEADER_BYTES + len(build_batch(RECORDS[:1])) - HEADER_BYTES), deltas, strict=True
    ):
        payload_at = at + (2 if plain[at] < 0x80 else 3)
        payload_at += 1 if plain[payload_at] < 0x80 else 2
        plain[payload_at] = (delta << 1) ^ (delta >> 7)
    out = bytearray(plain[:HEADER_BYTES]) + compress(old, bytes(plain[HEADER_BYTES:]))
    fields = read_header(plain)._replace(attributes=old, batch_length=len(out) - LOG_OVERHEAD_BYTES)
    BATCH_HEADER.pack_into(out, 0, *fields)
    BATCH_HEADER.pack_into(out, 0, *fields._replace(crc=crc32c(memoryview(out)[CRC_START:])))
    assert [record.offset for record in iter_records(out)] == deltas
    left = rework(out, new, ANY, LIMIT)
    assert list(iter_records(left)) == RECORDS
    assert check_batch(left).codec is (old if new is None else new)


def test_damaged_records_are_found_while_reworking():
    """The CRC may be right and the records wrong."""
    batch = resealed(build_batch(RECORDS), 0x7F)
    with pytest.raises(Corrupt, match="record of the batch at offset 0 is damaged"):
        rework(batch, Codec.LZ4, ANY, LIMIT)


@pytest.mark.parametrize(
    ("attributes", "codec", "keys_required", "expected"),
    [(0, None, False, False), (3, Codec.LZ4, False, False), (0, Codec.LZ4, False, True), (3, None, True, True)],
)
def test_only_what_must_be_opened_is_opened(attributes, codec, keys_required, expected):
    """The producer's codec is kept where the topic asks for nothing else."""
    assert needs_rework(attributes, codec, keys_required=keys_required) is expected


def test_a_batch_whose_crc_is_wrong_gets_no_new_one():
    """Damaged bytes would have become the truth: the new batch has a CRC of its own."""
    batch = build_batch(RECORDS)
    batch[-2] ^= 0x01  # within the last record's value or headers: the records may still be read
    with pytest.raises(Corrupt, match="CRC"):
        rework(batch, Codec.LZ4, ANY, LIMIT)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_records_that_grow_too_large_are_refused_as_too_large(codec):
    """MESSAGE_TOO_LARGE: Java producers split such a batch and send it again; CORRUPT_MESSAGE they would repeat for ever."""
    batch = build_batch([Record(0, 0, b"k", bytes(1 << 20))], codec=codec)
    with pytest.raises(KafkaError, match="more than 1000000 bytes uncompressed") as caught:
        rework(batch, Codec.NONE, ANY, 1_000_000)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert rework(batch, Codec.NONE, ANY, 1_100_000)


def test_records_are_counted_before_they_are_opened(monkeypatch):
    """A header that claims millions is refused by the claim alone."""
    monkeypatch.setattr(rework_module, "OPENED_RECORDS_MAX", 1)
    monkeypatch.setattr(rework_module, "decompress", pytest.fail)
    with pytest.raises(KafkaError, match="holds 2 records") as caught:
        rework(build_batch(RECORDS, codec=Codec.ZSTD), Codec.NONE, ANY, LIMIT)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_opened_batches_are_bounded_by_max_message_bytes():
    """16 MiB, or 16 times ``max.message.bytes``; the cleaner would skip a log with a batch that it cannot open."""
    assert opened_bytes_max(1000) == 16 << 20
    assert opened_bytes_max(2 << 20) == 32 << 20
    assert opened_bytes_max(100 << 20) == DECOMPRESSED_BYTES_MAX


def test_a_batch_that_stays_uncompressed_is_bounded_by_max_message_bytes_alone():
    """No reader has to open it, as one that is compressed here."""
    batch = build_batch([Record(0, 0, b"k", bytes(1 << 20))])
    assert rework(batch, None, KEYED, 1_000_000) == rework(batch, Codec.NONE, KEYED, 1_000_000) == batch
    with pytest.raises(KafkaError, match="more than 1000000 bytes uncompressed"):
        rework(batch, Codec.ZSTD, KEYED, 1_000_000)
