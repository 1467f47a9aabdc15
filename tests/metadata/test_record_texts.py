"""Texts that records can hold."""

import pytest

from stratalog.metadata.record_texts import TEXT_BYTES_MAX, check_text
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.group import GroupMetadataKey, encode_key


def test_the_longest_text_that_a_record_holds_is_taken():
    """It counts in bytes of UTF-8, as the record does."""
    for text in ("x" * TEXT_BYTES_MAX, "é" * (TEXT_BYTES_MAX // 2), "", None):
        check_text("It", text)
    encode_key(GroupMetadataKey(group="x" * TEXT_BYTES_MAX))


@pytest.mark.parametrize(("text", "spare_bytes"), [("x" * 32_768, 0), ("é" * 16_384, 0), ("x" * 32_767, 1)])
def test_a_longer_one_is_refused(text, spare_bytes):
    """Also one that is too long only with what is put to it."""
    with pytest.raises(KafkaError, match="It has more than") as raised:
        check_text("It", text, spare_bytes)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
