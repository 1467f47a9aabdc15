"""Which records of a batch are refused."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.wire.batch import HEADER_BYTES, NO_TIMESTAMP, Record, build_batch, read_header
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.record_rules import RECORD_ERRORS_MAX, RecordError, RecordRules, RecordsRefused
from stratalog.wire.record_rules import check_records as check

KEYED = RecordRules("t-0", keys_required=True)
TIMED = RecordRules("t-0", earliest_ms=10, latest_ms=20)
keys = st.sampled_from([None, b"k"])
times = st.sampled_from([NO_TIMESTAMP, 9, 10, 20, 21])


def batch(*records: tuple[bytes | None, int]) -> bytearray:
    """A batch of keys and times."""
    return build_batch([Record(at, time, key, b"v") for at, (key, time) in enumerate(records)])


def check_records(data: bytearray, rules: RecordRules) -> None:
    """Look at the records of an uncompressed batch."""
    check(read_header(data), bytes(data[HEADER_BYTES:]), rules)


@given(st.lists(st.tuples(keys, times), min_size=1, max_size=8), st.booleans(), st.booleans())
def test_exactly_the_records_that_break_a_rule_are_named(records, keyed, timed):
    """A wrong time decides about the code, and a missing key about the words of its record."""
    rules = RecordRules("t-0", keyed, *((10, 20) if timed else ()))
    keyless = {at for at, (key, _) in enumerate(records) if keyed and key is None}
    mistimed = {at for at, (_, time) in enumerate(records) if timed and time in {9, 21}} - keyless
    try:
        check_records(batch(*records), rules)
        errors, code = (), None
    except RecordsRefused as refused:
        errors, code = refused.record_errors, refused.code
    assert [each.batch_index for each in errors] == sorted(keyless | mistimed)
    assert {each.batch_index for each in errors if "without key" in each.message} == keyless
    if errors:
        assert code is (ErrorCode.INVALID_TIMESTAMP if mistimed else ErrorCode.INVALID_RECORD)


def test_the_words_are_kafkas():
    """Clients' own tests compare them."""
    with pytest.raises(RecordsRefused) as caught:
        check_records(batch(*[(None, 15)] * 4), KEYED)
    said = "Compacted topic cannot accept message without key in topic partition t-0"
    shown = ", ".join(f"RecordError(batchIndex={at}, message='{said}')" for at in range(3))
    assert caught.value.message == (
        "One or more records have been rejected due to 4 record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
    with pytest.raises(RecordsRefused) as caught:
        check_records(batch((b"k", 15), (b"k", 99)), TIMED)
    assert caught.value.message == "One or more records have been rejected due to invalid timestamp"
    assert caught.value.record_errors == (
        RecordError(
            1, "Timestamp 99 of message with offset 1 is out of range. The timestamp should be within [10, 20]"
        ),
    )


def test_a_batch_of_very_many_bad_records_names_the_first_ones():
    """The message still counts all."""
    with pytest.raises(RecordsRefused, match=f"due to {RECORD_ERRORS_MAX + 5} record errors") as caught:
        check_records(batch(*[(None, 15)] * (RECORD_ERRORS_MAX + 5)), KEYED)
    assert [each.batch_index for each in caught.value.record_errors] == list(range(RECORD_ERRORS_MAX))


def test_a_refusal_passes_between_processes():
    """A worker looks at the records, the broker answers."""
    refused = RecordsRefused(ErrorCode.INVALID_RECORD, "why", (RecordError(3, "because"),))
    again = pickle.loads(pickle.dumps(refused))
    assert (again.code, again.message, again.record_errors) == (refused.code, "why", refused.record_errors)


def test_a_header_whose_counts_disagree_is_refused_as_a_whole():
    """The leader would refuse it later; no record is named."""
    data = batch((None, 15), (None, 15))
    data[57:61] = (1).to_bytes(4, "big")
    assert read_header(data).record_count == 1
    with pytest.raises(KafkaError, match="counts 1 records over 2 offsets") as caught:
        check_records(data, KEYED)
    assert not isinstance(caught.value, RecordsRefused)


def test_damaged_records_are_found():
    """The CRC may be right and the records wrong."""
    data = batch((b"k", 15))
    data[61] = 0x7F
    with pytest.raises(Corrupt):
        check_records(data, KEYED)
