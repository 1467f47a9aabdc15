"""The records of committed offsets by themselves: packed and read without the general codec, to the same bytes.

A broker may keep a million offsets and take ten thousand commits a second, so they are kept as the bytes of their
record's value, which the garbage collector need not look into, and read on demand.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final, NamedTuple

from stratalog.metadata.coordination import CoordinatorRecord
from stratalog.wire.errors import Corrupt
from stratalog.wire.primitives import unsigned_varint
from stratalog.wire.records.group import OffsetCommitKey, OffsetCommitValue, decode_value, encode_value
from stratalog.wire.schema import DecodeError
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = [
    "NEVER",
    "CommittedOffset",
    "check_offset",
    "is_offset_key",
    "offset_key",
    "pack_offset",
    "read_offset",
    "read_offset_key",
    "tombstone",
]

NEVER: Final = -1
"""The expire timestamp of an offset for which the broker's retention holds."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_HEAD: Final = Struct(">hqiB")
_TIME: Final = Struct(">q")
_NO_TEXT_TOPIC_ID: Final = Struct(">hqiBqBBB16s")
_NO_TEXT: Final = Struct(">hqiBqB")
_VERSION: Final = 4
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
"""One tagged field, number 0, 16 bytes."""
_NO_TAGS: Final = b"\x00"
_SHORT_TEXT: Final = 0x80
_KEY_TYPES: Final = (b"\x00\x01", b"\x00\x00")
_ANY_KEY: Final = OffsetCommitKey(group="", topic="", partition=0)


class CommittedOffset(NamedTuple):
    """The offset that was committed for one partition. Times in wall-clock milliseconds."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    """`NEVER` unless the client chose the retention."""
    topic_id: Uuid
    """Zero where the record does not have it."""


def is_offset_key(key: bytes) -> bool:
    """Whether a record of ``__consumer_offsets`` is a committed offset."""
    return key[:2] in _KEY_TYPES


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of the record. The texts have at most `TEXT_BYTES_MAX` bytes."""
    group, name = group_id.encode(), topic.encode()
    return b"".join(
        (_KEY_TYPES[0], _INT16.pack(len(group)), group, _INT16.pack(len(name)), name, _INT32.pack(partition))
    )


def read_offset_key(key: bytes) -> tuple[str, str, int]:
    """Group, topic and partition. Raises `Corrupt`."""
    try:
        topic_at = 4 + _INT16.unpack_from(key, 2)[0]
        partition_at = topic_at + 2 + _INT16.unpack_from(key, topic_at)[0]
        if 4 <= topic_at <= partition_at - 2 and len(key) == partition_at + 4:
            (partition,) = _INT32.unpack_from(key, partition_at)
            return key[4:topic_at].decode(), key[topic_at + 2 : partition_at].decode(), partition
    except (error, UnicodeDecodeError) as cause:
        raise Corrupt(f"the key {key.hex()} of a committed offset is damaged: {cause}") from cause
    raise Corrupt(f"the key {key.hex()} of a committed offset has lengths that do not fit")


def pack_offset(one: CommittedOffset) -> bytes:
    """The value of the record, as Kafka 4.3 writes it: version 4, or 1 for an offset that expires at a given time."""
    offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id = one
    if expire_timestamp != NEVER:
        return encode_value(
            OffsetCommitValue(
                offset=offset, metadata=metadata, commit_timestamp=commit_timestamp, expire_timestamp=expire_timestamp
            )
        )
    if not metadata:
        if topic_id == ZERO_UUID:
            return _NO_TEXT.pack(_VERSION, offset, leader_epoch, 1, commit_timestamp, 0)
        return _NO_TEXT_TOPIC_ID.pack(_VERSION, offset, leader_epoch, 1, commit_timestamp, 1, 0, 16, topic_id)
    text = metadata.encode()
    length = unsigned_varint(len(text) + 1)
    tags = _NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID_TAG + topic_id
    head = _HEAD.pack(_VERSION, offset, leader_epoch, length[0])
    return b"".join((head, length[1:], text, _TIME.pack(commit_timestamp), tags))


def read_offset(value: bytes) -> CommittedOffset:
    """The inverse of `pack_offset`, for every version that Kafka has written. Raises `Corrupt`."""
    if len(value) > _HEAD.size:
        version, offset, leader_epoch, length = _HEAD.unpack_from(value)
        time_at = _HEAD.size + length - 1
        tags = value[time_at + _TIME.size :]
        if version == _VERSION and 0 < length < _SHORT_TEXT and (tags == _NO_TAGS or _is_topic_id(tags)):
            try:
                text = value[_HEAD.size : time_at].decode() if length > 1 else ""
            except UnicodeDecodeError as cause:
                raise Corrupt(f"the text of a committed offset is damaged: {cause}") from cause
            (commit_timestamp,) = _TIME.unpack_from(value, time_at)
            topic_id = ZERO_UUID if len(tags) == 1 else tags[len(_TOPIC_ID_TAG) :]
            return CommittedOffset(offset, leader_epoch, text, commit_timestamp, NEVER, topic_id)
    return _read_any(value)


def check_offset(value: bytes) -> None:
    """Raises `Corrupt` for a value that `read_offset` could not read."""
    if not (
        len(value) == _NO_TEXT_TOPIC_ID.size
        and value[:2] == b"\x00\x04"
        and value[14] == 1
        and value[23:26] == _TOPIC_ID_TAG
    ):
        read_offset(value)


def tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """The record that deletes a committed offset."""
    return CoordinatorRecord(offset_key(group_id, topic, partition), None)


def _is_topic_id(tags: bytes) -> bool:
    return len(tags) == len(_TOPIC_ID_TAG) + 16 and tags.startswith(_TOPIC_ID_TAG)


def _read_any(value: bytes) -> CommittedOffset:
    """By the general codec: older versions, long texts, tagged fields of later releases."""
    try:
        one = decode_value(_ANY_KEY, value)
    except DecodeError as cause:
        raise Corrupt(f"the value {value[:64].hex()} of a committed offset is damaged: {cause}") from cause
    assert isinstance(one, OffsetCommitValue)
    return CommittedOffset(
        one.offset, one.leader_epoch, one.metadata, one.commit_timestamp, one.expire_timestamp, one.topic_id
    )
