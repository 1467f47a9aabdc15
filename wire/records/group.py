"""The records of ``__consumer_offsets``: committed offsets, and the groups of both rebalance protocols.

A key is the record type, int16, and the key message in version 0; a value is the version of the value message, int16,
and that message; a null value deletes what its key names. Names and numbers are Kafka's, and values are written in the
versions in which Kafka 4.3 writes them, so ``kafka-dump-log --offsets-decoder`` prints our log. Sources: Kafka's
``GroupCoordinatorRecordSerde`` and ``GroupCoordinatorRecordHelpers``; KIP-848 (consumer groups), KIP-915 (flexible
values), KIP-1101 (metadata hash), KIP-1263 (assignment timestamp).
"""

from __future__ import annotations

from struct import Struct as Packer
from typing import Final

from stratalog.wire.schema import (
    Buffer,
    DecodeError,
    Int8,
    Int32,
    Int64,
    Message,
    Struct,
    Uuid,
    decoder,
    encode_bytes,
    field,
)

__all__ = [
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "CurrentTopicPartitions",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "PartitionRacks",
    "TargetTopicPartition",
    "TopicMetadata",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
]

_INT16: Final = Packer(">h")
_LEGACY_OFFSET_COMMIT: Final = 0
_KEY_VERSION: Final = 0


class OffsetCommitKey(Message, api_key=1, versions=(0, 0)):
    """The committed offset of a group in a partition. Type 0, of Kafka before 0.9, is read as this one too."""

    group: str
    topic: str
    partition: Int32


class OffsetCommitValue(Message, api_key=1, versions=(0, 4), flexible=4):
    """The offset that was committed. ``expire_timestamp`` is -1 unless the client chose a retention of its own
    (OffsetCommit below 5); it stands in version 1 only. ``topic_id`` is zero where the client named the topic alone.
    Times in milliseconds.
    """

    offset: Int64
    leader_epoch: Int32 = field(-1, since=3)
    metadata: str
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(-1, since=1, until=1)
    topic_id: Uuid = field(since=4, tag=0)


class GroupMetadataKey(Message, api_key=2, versions=(0, 0)):
    """A classic group."""

    group: str


class MemberMetadata(Struct):
    """A member of a classic group: its subscription to the chosen protocol and its assignment, both opaque."""

    member_id: str
    group_instance_id: str | None = field(None, since=3)
    client_id: str
    client_host: str
    rebalance_timeout: Int32 = field(-1, since=1)
    session_timeout: Int32
    subscription: bytes
    assignment: bytes


class GroupMetadataValue(Message, api_key=2, versions=(0, 4), flexible=4):
    """A generation of a classic group; without members and protocol when it is empty. Time in milliseconds."""

    protocol_type: str
    generation: Int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: Int64 = field(-1, since=2)
    members: list[MemberMetadata]


class ConsumerGroupMetadataKey(Message, api_key=3, versions=(0, 0)):
    """A consumer group."""

    group_id: str


class ConsumerGroupMetadataValue(Message, api_key=3, versions=(0, 0), flexible=0):
    """The epoch of a consumer group, and the hash of the topics it was computed for (KIP-1101)."""

    epoch: Int32
    metadata_hash: Int64 = field(tag=0)


class ConsumerGroupPartitionMetadataKey(Message, api_key=4, versions=(0, 0)):
    """The topics a consumer group subscribes to, as Kafka before 4.1 kept them."""

    group_id: str


class PartitionRacks(Struct):
    """The racks of a partition; not written any more."""

    partition: Int32
    racks: list[str]


class TopicMetadata(Struct):
    """A subscribed topic."""

    topic_id: Uuid
    topic_name: str
    num_partitions: Int32
    partition_metadata: list[PartitionRacks] = field()


class ConsumerGroupPartitionMetadataValue(Message, api_key=4, versions=(0, 0), flexible=0):
    """The subscribed topics; replaced by `ConsumerGroupMetadataValue.metadata_hash`."""

    topics: list[TopicMetadata]


class ConsumerGroupMemberMetadataKey(Message, api_key=5, versions=(0, 0)):
    """A member of a consumer group."""

    group_id: str
    member_id: str


class ClassicProtocol(Struct):
    """A protocol that a classic member supports, with its subscription for it."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(Struct):
    """The state that a consumer group keeps of a member that speaks the classic protocol."""

    session_timeout_ms: Int32
    supported_protocols: list[ClassicProtocol]


class ConsumerGroupMemberMetadataValue(Message, api_key=5, versions=(0, 0), flexible=0):
    """The member's own description of itself.

    Kafka writes null for a member of the new protocol, and takes a record that says nothing for one of the old.
    """

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: Int32 = field(-1)
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = field(None, tag=0, presence=True)


class ConsumerGroupTargetAssignmentMetadataKey(Message, api_key=6, versions=(0, 0)):
    """The target assignment of a consumer group."""

    group_id: str


class ConsumerGroupTargetAssignmentMetadataValue(Message, api_key=6, versions=(0, 0), flexible=0):
    """The epoch of the target assignment, and when its computation ended, in milliseconds (KIP-1263)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, api_key=7, versions=(0, 0)):
    """The target assignment of one member."""

    group_id: str
    member_id: str


class TargetTopicPartition(Struct):
    """Target partitions of one topic for a member."""

    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupTargetAssignmentMemberValue(Message, api_key=7, versions=(0, 0), flexible=0):
    """The target partitions of a member."""

    topic_partitions: list[TargetTopicPartition]


class ConsumerGroupCurrentMemberAssignmentKey(Message, api_key=8, versions=(0, 0)):
    """The current assignment of one member."""

    group_id: str
    member_id: str


class CurrentTopicPartitions(Struct):
    """Partitions of one topic that a member has, each with the epoch in which it was given (KIP-1251)."""

    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(None, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, api_key=8, versions=(0, 0), flexible=0):
    """How far a member has come towards its target. ``state``: 0 stable, 1 has partitions to give up, 2 waits for
    partitions that others have not given up, 127 unknown.
    """

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[CurrentTopicPartitions]
    partitions_pending_revocation: list[CurrentTopicPartitions]


class ConsumerGroupRegularExpressionKey(Message, api_key=16, versions=(0, 0)):
    """A regular expression that members of a consumer group subscribe by."""

    group_id: str
    regular_expression: str


class ConsumerGroupRegularExpressionValue(Message, api_key=16, versions=(0, 0), flexible=0):
    """The topics that matched when it was resolved: against which version of the metadata, and when in milliseconds."""

    topics: list[str]
    version: Int64
    timestamp: Int64


_MESSAGES: Final[dict[int, tuple[type[Message], type[Message]]]] = {
    key.api_key: (key, value)
    for key, value in (
        (OffsetCommitKey, OffsetCommitValue),
        (GroupMetadataKey, GroupMetadataValue),
        (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    )
}
_KEYS: Final[dict[int, type[Message]]] = {
    _LEGACY_OFFSET_COMMIT: OffsetCommitKey,
    **{record_type: key for record_type, (key, _) in _MESSAGES.items()},
}


def encode_key(key: Message) -> bytes:
    """The key of a record. Raises `EncodeError` for a value it cannot hold."""
    return _INT16.pack(key.api_key) + encode_bytes(key, _KEY_VERSION)


def encode_value(value: Message, version: int | None = None) -> bytes:
    """The value of a record, in the version in which Kafka 4.3 writes it unless told otherwise.

    Raises `Invalid` for a version that the message does not have, `EncodeError` for a value it cannot hold.
    """
    chosen = _version_written(value) if version is None else version
    return _INT16.pack(chosen) + encode_bytes(value, chosen)


def _version_written(value: Message) -> int:
    """Group metadata stays in its last version before flexible ones; an offset that expires exists in version 1."""
    if isinstance(value, GroupMetadataValue):
        return 3
    if isinstance(value, OffsetCommitValue) and value.expire_timestamp != -1:
        return 1
    return value.versions[1]


def decode_key(key: Buffer) -> Message | None:
    """The key message of a record, None for a type that is not known: its record is skipped, as Kafka does.

    Raises `DecodeError` for a key that is cut off or followed by other bytes.
    """
    if len(key) < _INT16.size:
        raise DecodeError(f"the key of a group record is cut off after {len(key)} bytes")
    (record_type,) = _INT16.unpack_from(key)
    cls = _KEYS.get(record_type)
    if cls is None:
        return None
    message, end = decoder(cls, _KEY_VERSION)(key, _INT16.size)
    if end != len(key):
        raise DecodeError(f"{len(key) - end} bytes follow a {cls.__name__}")
    return message


def decode_value(key: Message, value: Buffer) -> Message:
    """The value message that belongs to ``key``, in any version.

    Only its bytes bound its elements: what a coordinator has written of a large cluster it must be able to load.

    Raises `DecodeError` for a version that is not known, and for bytes too few or too many.
    """
    cls = _MESSAGES[key.api_key][1]
    if len(value) < _INT16.size:
        raise DecodeError(f"the value of a {cls.__name__} is cut off after {len(value)} bytes")
    (version,) = _INT16.unpack_from(value)
    first, last = cls.versions
    if not first <= version <= last:
        raise DecodeError(f"a {cls.__name__} has version {version}, known are {first} to {last}")
    message, end = decoder(cls, version)(value, _INT16.size, len(value))
    if end != len(value):
        raise DecodeError(f"{len(value) - end} bytes follow a {cls.__name__} v{version}")
    return message
