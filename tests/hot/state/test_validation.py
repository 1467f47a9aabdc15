"""Tests of hot/state/validation.py."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.hot.config import LogConfig
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.state.validation import (
    _check_with_care,
    check_follower_batches,
    check_leader_batch,
    read_end_marker,
)
from stratalog.wire.batch import BATCH_HEADER, HEADER_BYTES, build_control_batch, read_header
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("flights", 0)


def verdict(batch, config=None, origin=AppendOrigin.CLIENT) -> ErrorCode:
    try:
        check_leader_batch(batch, config or LogConfig(), origin, NOW_MS, PARTITION)
    except KafkaError as error:
        assert "flights-0" in (error.message or "")
        return error.code
    return ErrorCode.NONE


def patched(batch: bytearray, **fields) -> bytearray:
    """The batch with other header fields and a CRC that fits them."""
    from crc32c import crc32c

    header = read_header(batch)._replace(**fields)
    BATCH_HEADER.pack_into(batch, 0, *header)
    if "crc" not in fields:
        batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return batch


def test_a_good_batch_passes(make_batch):
    """Its header fields come back for the log to use."""
    fields = check_leader_batch(make_batch(count=3), LogConfig(), AppendOrigin.CLIENT, NOW_MS, PARTITION)
    assert (fields[6], fields[12]) == (2, 3)


def test_a_message_larger_than_max_message_bytes_is_too_large(make_batch):
    """MESSAGE_TOO_LARGE, exactly from one byte above the limit on."""
    batch = make_batch()
    assert verdict(batch, LogConfig(max_message_bytes=len(batch))) is ErrorCode.NONE
    assert verdict(batch, LogConfig(max_message_bytes=len(batch) - 1)) is ErrorCode.MESSAGE_TOO_LARGE
    assert verdict(batch, LogConfig(max_message_bytes=1), AppendOrigin.COORDINATOR) is ErrorCode.NONE


def test_the_size_is_judged_before_the_crc_and_the_crc_before_the_counts(make_batch):
    """Kafka's order decides which of several faults is answered."""
    batch = patched(make_batch(), record_count=9, crc=1)
    assert verdict(batch, LogConfig(max_message_bytes=10)) is ErrorCode.MESSAGE_TOO_LARGE
    assert verdict(batch) is ErrorCode.CORRUPT_MESSAGE
    assert verdict(patched(batch)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": 2},
        {"last_offset_delta": 5},
        {"last_offset_delta": -1, "record_count": 0},
        {"base_offset": 1},
        {"attributes": 0x20},
        {"producer_id": 5},
    ],
)
def test_headers_that_contradict_themselves_are_invalid_records(make_batch, fields):
    """Counts, a base offset, a control bit from a client, a producer without sequence."""
    assert verdict(patched(make_batch(), **fields)) is ErrorCode.INVALID_RECORD


def test_a_coordinator_may_write_control_batches(make_batch):
    """The same bit from a client is refused above."""
    assert verdict(patched(make_batch(), attributes=0x30), origin=AppendOrigin.COORDINATOR) is ErrorCode.NONE


def test_exactly_one_batch_per_partition(make_batch):
    """Two, or none, are invalid; what is cut short is none, as Kafka sees it."""
    batch = bytes(make_batch())
    assert verdict(batch + batch) is ErrorCode.INVALID_RECORD
    for size_bytes in (0, 5, 12, 20, 60, len(batch) - 1):
        assert verdict(batch[:size_bytes]) is ErrorCode.INVALID_RECORD


def test_a_length_that_no_batch_can_have_is_corrupt(make_batch):
    """Whether or not there is a whole header."""
    for length, size_bytes in ((-5, 70), (0, 20), (13, 12), (48, 70)):
        batch = bytes(patched(make_batch(), batch_length=length))[:size_bytes]
        assert verdict(batch) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("magic", "code"), [(0, ErrorCode.INVALID_RECORD), (1, ErrorCode.INVALID_RECORD), (3, ErrorCode.CORRUPT_MESSAGE)]
)
def test_older_formats_are_refused(make_batch, magic, code):
    """Only format v2 is stored."""
    assert verdict(patched(make_batch(), magic=magic)) is code


def test_timestamps_must_lie_within_the_configured_bounds(make_batch):
    """An hour ahead by default; the past is unlimited by default."""
    assert verdict(make_batch(timestamp_ms=NOW_MS + 3_600_000)) is ErrorCode.NONE
    assert verdict(make_batch(timestamp_ms=NOW_MS + 3_600_001)) is ErrorCode.INVALID_TIMESTAMP
    assert verdict(make_batch(timestamp_ms=5)) is ErrorCode.NONE
    strict = LogConfig(message_timestamp_before_max_ms=1000)
    assert verdict(make_batch(timestamp_ms=NOW_MS - 1000), strict) is ErrorCode.NONE
    assert verdict(make_batch(timestamp_ms=NOW_MS - 1001), strict) is ErrorCode.INVALID_TIMESTAMP
    stamped = LogConfig(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=1000)
    assert verdict(make_batch(timestamp_ms=5), stamped) is ErrorCode.NONE


def test_a_producer_may_not_claim_log_append_time(make_batch):
    """INVALID_TIMESTAMP."""
    assert verdict(make_batch(log_append_time_ms=NOW_MS)) is ErrorCode.INVALID_TIMESTAMP


def test_a_batch_larger_than_a_segment_is_refused(make_batch):
    """RECORD_LIST_TOO_LARGE."""
    assert verdict(make_batch(), LogConfig(segment_bytes=40)) is ErrorCode.RECORD_LIST_TOO_LARGE


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_answered_with_a_kafka_error(data):
    """Every such input raises this error and no other."""
    assert verdict(data) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "base_offset": st.integers(0, 1),
            "magic": st.integers(1, 3),
            "attributes": st.integers(-0x8000, 0x7FFF) | st.integers(0, 0x70),
            "last_offset_delta": st.integers(-1, 3),
            "record_count": st.integers(-1, 3),
            "base_timestamp": st.integers(-1, NOW_MS * 2) | st.just(NOW_MS - 1000),
            "max_timestamp": st.integers(-1, NOW_MS * 2) | st.just(NOW_MS + 3_600_001),
            "producer_id": st.integers(-1, 1),
            "base_sequence": st.integers(-1, 1),
            "crc": st.just(1),
        },
    ),
    st.sampled_from([LogConfig(), LogConfig(max_message_bytes=60), LogConfig(segment_bytes=60)]),
    st.sampled_from(["CreateTime", "LogAppendTime"]),
    st.sampled_from([1 << 62, 500]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_quick_check_refuses_all_that_the_careful_one_refuses(make_batch, fields, config, stamp, before_max_ms):
    """A random header gets the same error code from the quick check as from the rules one by one."""
    batch = patched(make_batch(), **fields)
    config = replace(config, message_timestamp_type=stamp, message_timestamp_before_max_ms=before_max_ms)
    try:
        _check_with_care(batch, tuple(read_header(batch)), config, AppendOrigin.CLIENT, NOW_MS, PARTITION)
        careful = ErrorCode.NONE
    except KafkaError as error:
        careful = error.code
    assert verdict(batch, config) is careful


def test_followers_keep_whole_batches_of_known_epochs(make_batch):
    """A torn last batch and everything from a later epoch on is left out."""
    first, second, third = (
        make_batch(4, 2, leader_epoch=1),
        make_batch(6, leader_epoch=2),
        make_batch(7, leader_epoch=9),
    )
    taken = check_follower_batches(memoryview(first + second + third), 4, 2, PARTITION)
    assert [header.base_offset for header, _ in taken] == [4, 6]
    assert [bytes(batch) for _, batch in taken] == [first, second]
    torn = check_follower_batches(memoryview(first + second[:-1]), 4, 2, PARTITION)
    assert [header.base_offset for header, _ in torn] == [4]


def test_followers_refuse_damage_and_offsets_that_go_back(make_batch):
    """CORRUPT_MESSAGE and OFFSET_OUT_OF_RANGE."""
    batch = make_batch(4)
    with pytest.raises(KafkaError) as caught:
        check_follower_batches(memoryview(batch), 5, 9, PARTITION)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    batch[HEADER_BYTES] ^= 1
    with pytest.raises(KafkaError) as caught:
        check_follower_batches(memoryview(batch), 4, 9, PARTITION)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("kind", [0, 1])
def test_transaction_markers_are_read(kind):
    """Kind 0 aborts, 1 commits; the value carries the coordinator's epoch."""
    batch = build_control_batch(
        kind, b"\0\0\0\0\0\x11", offset=3, timestamp_ms=5, leader_epoch=0, producer_id=8, producer_epoch=2
    )
    assert read_end_marker(batch) == (8, 2, 0x11, 5, kind == 1)


def test_other_control_records_are_no_markers():
    """A leader change is not; a marker without its value is damage."""
    change = build_control_batch(2, b"\0\0", offset=0, timestamp_ms=0, leader_epoch=0)
    assert read_end_marker(change) is None
    with pytest.raises(Corrupt):
        read_end_marker(build_control_batch(1, b"\0", offset=0, timestamp_ms=0, leader_epoch=0))
