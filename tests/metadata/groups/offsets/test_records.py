"""Committed offsets packed by hand: the bytes of the general codec, and nothing read that it would refuse."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stratalog.metadata.groups.offsets.records import (
    NEVER,
    CommittedOffset,
    check_offset,
    is_offset_key,
    offset_key,
    pack_offset,
    read_offset,
    read_offset_key,
    tombstone,
)
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.group import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from stratalog.wire.schema import DecodeError
from stratalog.wire.topic import ZERO_UUID

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
NAMES = st.text(max_size=20)
TEXTS = st.one_of(st.just(""), st.text(max_size=20), st.text("aß€😀", min_size=120, max_size=200))
TOPIC_IDS = st.one_of(st.just(ZERO_UUID), st.binary(min_size=16, max_size=16))
OFFSETS = st.builds(CommittedOffset, INT64, INT32, TEXTS, INT64, st.just(NEVER), TOPIC_IDS)
EXPIRING = st.builds(CommittedOffset, INT64, st.just(-1), TEXTS, INT64, INT64, st.just(ZERO_UUID))


def value_of(one):
    return OffsetCommitValue(
        offset=one.offset,
        leader_epoch=one.leader_epoch,
        metadata=one.metadata,
        commit_timestamp=one.commit_timestamp,
        expire_timestamp=one.expire_timestamp,
        topic_id=one.topic_id,
    )


@given(NAMES, NAMES, INT32)
def test_a_key_is_packed_as_by_the_general_codec(group, topic, partition):
    """A key is packed and read as by the general codec."""
    key = offset_key(group, topic, partition)
    assert key == encode_key(OffsetCommitKey(group=group, topic=topic, partition=partition))
    assert read_offset_key(key) == (group, topic, partition)
    assert is_offset_key(key)


@given(NAMES, NAMES, INT32)
def test_key_of_old(group, topic, partition):
    """The key of Kafka before 0.9 is read as well."""
    assert read_offset_key(b"\0\0" + offset_key(group, topic, partition)[2:]) == (group, topic, partition)
    assert is_offset_key(b"\0\0" + b"rest")


def test_key_of_others():
    """Groups have keys of another type."""
    assert not is_offset_key(encode_key(GroupMetadataKey(group="g")))


@given(st.binary(max_size=40).map(lambda rest: b"\0\1" + rest))
@example(b"\0\1\xff\xff\0\0" + b"\0\0\0\0")
@example(b"\0\1\0\0\xff\xff" + b"\0\0\0\0")
def test_a_damaged_key_is_refused_as_by_the_general_codec(key):
    """A damaged key is refused exactly where the general codec refuses it."""
    try:
        expected = decode_key(key)
    except DecodeError:
        with pytest.raises(Corrupt):
            read_offset_key(key)
    else:
        assert read_offset_key(key) == (expected.group, expected.topic, expected.partition)


@given(OFFSETS | EXPIRING)
def test_a_value_is_packed_as_by_the_general_codec(one):
    """A value is packed as by the general codec, and read back."""
    packed = pack_offset(one)
    assert packed == encode_value(value_of(one))
    assert read_offset(packed) == one
    check_offset(packed)


@given(OFFSETS, st.integers(0, 4))
def test_every_version_of_a_value_is_read(one, version):
    """Every version is read, with what it does not carry left out."""
    packed = encode_value(value_of(one), version)
    found = decode_value(OffsetCommitKey(group="", topic="", partition=0), packed)
    assert value_of(read_offset(packed)) == found
    check_offset(packed)


@given(OFFSETS, st.binary(max_size=4), st.data())
def test_a_damaged_value_is_refused_as_by_the_general_codec(one, tail, data):
    """A damaged value is refused exactly where the general codec refuses it; later tags are passed over."""
    packed = bytearray(pack_offset(one))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    noisy = bytes(packed[: data.draw(st.integers(0, len(packed)))] + tail)
    try:
        expected = decode_value(OffsetCommitKey(group="", topic="", partition=0), noisy)
    except DecodeError:
        with pytest.raises(Corrupt):
            read_offset(noisy)
        with pytest.raises(Corrupt):
            check_offset(noisy)
    else:
        assert value_of(read_offset(noisy)) == expected
        check_offset(noisy)


def test_a_deleted_offset_is_a_record_without_value():
    """A deleted offset is a record without value."""
    assert tombstone("g", "t", 3) == (offset_key("g", "t", 3), None)
