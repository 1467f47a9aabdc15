"""The records of ``__transaction_state`` in Kafka's bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.wire.records.transaction import (
    PartitionsSchema,
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from stratalog.wire.schema import ELEMENTS_MAX, DecodeError


def value(**fields):
    """An ongoing transaction on ``t-3``."""
    known = {
        "producer_id": 7,
        "producer_epoch": 2,
        "transaction_timeout_ms": 60000,
        "transaction_status": 1,
        "transaction_partitions": [PartitionsSchema(topic="t", partition_ids=[3])],
        "transaction_last_update_timestamp_ms": 9,
        "transaction_start_timestamp_ms": 8,
    }
    return TransactionLogValue(**known | fields)


def test_key():
    """Version 0 and the transactional id; another version is skipped, nonsense is refused."""
    assert encode_key("x").hex() == "0000" + "000178"
    assert decode_key(encode_key("x")) == "x"
    assert decode_key(bytes.fromhex("0001" + "000178")) is None
    with pytest.raises(DecodeError):
        decode_key(b"\0")


def test_value_bytes():
    """Version 1 is flexible and carries what KIP-890 added as tagged fields; defaults are not written."""
    before = "0000000000000007" + "0002" + "0000ea60" + "01"
    times = "0000000000000009" + "0000000000000008"
    assert encode_value(value()).hex() == "0001" + before + "02" + "0274" + "0200000003" + "00" + times + "00"
    assert encode_value(value(), 0).hex() == "0000" + before + "00000001" + "000174" + "00000001" + "00000003" + times
    tagged = value(
        previous_producer_id=5, next_producer_id=6, client_transaction_version=2, transaction_partitions=None
    )
    assert (
        encode_value(tagged).hex()
        == "0001" + before + "00" + times + "03" + "0008" + f"{5:016x}" + "0108" + f"{6:016x}" + "0202" + "0002"
    )


def test_unknown_versions_are_refused():
    """A value of a version that does not exist yet is not guessed at."""
    with pytest.raises(DecodeError, match="version 2"):
        decode_value(b"\0\2" + encode_value(value())[2:])
    with pytest.raises(DecodeError):
        decode_value(b"")


@given(st.data())
def test_round_trip(messages, data):
    """Written records are read back, in both versions."""
    for version in (0, 1):
        written = data.draw(messages(TransactionLogValue, version))
        assert decode_value(encode_value(written, version)) == written


def test_no_count_of_partitions_is_too_large():
    """The limit of requests is for strangers: a transaction over a large cluster is loaded again."""
    written = value(transaction_partitions=[PartitionsSchema(topic="t", partition_ids=list(range(ELEMENTS_MAX + 1)))])
    assert decode_value(encode_value(written)) == written
