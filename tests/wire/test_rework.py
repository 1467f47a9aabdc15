"""Batches that are opened before they are appended."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.wire.batch import Record, build_batch, check_batch, iter_records
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.rework import needs_rework, rework

RECORDS = [Record(0, 1000, b"k", b"value" * 40), Record(1, 900, b"l", None)]


@given(st.sampled_from(Codec), st.sampled_from(Codec))
@settings(max_examples=25, deadline=None)
def test_another_codec_keeps_offsets_times_and_producer(old, new):
    """Topic compression.type other than the producer's: the batch is re-encoded, offsets and times kept."""
    batch = build_batch(RECORDS, codec=old, producer_id=7, producer_epoch=1, base_sequence=3, transactional=True)
    out = rework(batch, new, keys_required=False)
    before, after = check_batch(batch), check_batch(out)
    assert after.codec is new
    assert list(iter_records(out)) == RECORDS
    assert after[6:] == before[6:]
    assert after.is_transactional


def test_a_compacted_topic_refuses_records_without_a_key():
    """INVALID_RECORD, naming the record."""
    batch = build_batch([RECORDS[0], Record(1, 5, None, b"v")])
    with pytest.raises(KafkaError, match="offset delta 1 has no key") as caught:
        rework(batch, None, keys_required=True)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert rework(build_batch(RECORDS), None, keys_required=True) == build_batch(RECORDS)


def test_damaged_records_are_found_while_reworking():
    """The CRC may be right and the records wrong."""
    batch = build_batch(RECORDS)
    batch[61] = 0x7F
    with pytest.raises(Corrupt):
        rework(batch, Codec.LZ4, keys_required=False)


@pytest.mark.parametrize(
    ("attributes", "codec", "keys_required", "expected"),
    [(0, None, False, False), (3, Codec.LZ4, False, False), (0, Codec.LZ4, False, True), (3, None, True, True)],
)
def test_only_what_must_be_opened_is_opened(attributes, codec, keys_required, expected):
    """The producer's codec is kept where the topic asks for nothing else."""
    assert needs_rework(attributes, codec, keys_required=keys_required) is expected
