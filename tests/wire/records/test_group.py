"""Records of ``__consumer_offsets``: types, versions and bytes as Kafka 4.3 writes them."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.wire.errors import Invalid
from stratalog.wire.records import group
from stratalog.wire.records.group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from stratalog.wire.schema import ELEMENTS_MAX, DecodeError, Message
from stratalog.wire.schema_fields import ANY_VERSION

MESSAGES = [
    value
    for value in vars(group).values()
    if isinstance(value, type) and issubclass(value, Message) and value is not Message
]
KEYS = [cls for cls in MESSAGES if cls.__name__.endswith("Key")]
VALUES = {cls.api_key: cls for cls in MESSAGES if cls.__name__.endswith("Value")}
TOPIC_ID = bytes.fromhex("00000000000040008000000000000091")

# Kafka 4.3: record type, last version of the value, its first flexible version.
KAFKA_4_3 = {
    "OffsetCommit": (1, 4, 4),
    "GroupMetadata": (2, 4, 4),
    "ConsumerGroupMetadata": (3, 0, 0),
    "ConsumerGroupPartitionMetadata": (4, 0, 0),
    "ConsumerGroupMemberMetadata": (5, 0, 0),
    "ConsumerGroupTargetAssignmentMetadata": (6, 0, 0),
    "ConsumerGroupTargetAssignmentMember": (7, 0, 0),
    "ConsumerGroupCurrentMemberAssignment": (8, 0, 0),
    "ConsumerGroupRegularExpression": (16, 0, 0),
}

MEMBER = MemberMetadata(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/h",
    rebalance_timeout=5,
    session_timeout=6,
    subscription=b"\x01",
    assignment=b"\x02\x03",
)

# key, value, the bytes of both
GOLDEN = [
    (
        OffsetCommitKey(group="g", topic="to", partition=7),
        OffsetCommitValue(offset=9, leader_epoch=2, metadata="m", commit_timestamp=5, topic_id=TOPIC_ID),
        "0001 000167 0002746f 00000007",
        # offset; leader epoch; metadata; commit time; one tag, 0, of 16 bytes
        "0004 0000000000000009 00000002 026d 0000000000000005 01 00 10 00000000000040008000000000000091",
    ),
    (
        OffsetCommitKey(group="g", topic="t", partition=0),
        OffsetCommitValue(offset=9, metadata="", commit_timestamp=5, expire_timestamp=8),
        "0001 000167 000174 00000000",
        "0001 0000000000000009 0000 0000000000000005 0000000000000008",
    ),
    (
        GroupMetadataKey(group="g"),
        GroupMetadataValue(
            protocol_type="consumer",
            generation=3,
            protocol="range",
            leader="m",
            current_state_timestamp=1,
            members=[MEMBER],
        ),
        "0002 000167",
        (
            "0003 0008636f6e73756d6572 00000003 000572616e6765 00016d 0000000000000001 00000001"
            "00016d 000169 000163 00022f68 00000005 00000006 00000001 01 00000002 0203"
        ),
    ),
    (
        GroupMetadataKey(group="g"),
        GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, members=[]),
        "0002 000167",
        "0003 0000 00000000 ffff ffff ffffffffffffffff 00000000",
    ),
    (
        ConsumerGroupMetadataKey(group_id="g"),
        ConsumerGroupMetadataValue(epoch=4, metadata_hash=1),
        "0003 000167",
        "0000 00000004 01 00 08 0000000000000001",
    ),
    (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id="c",
            client_host="/h",
            subscribed_topic_names=["t"],
            subscribed_topic_regex=None,
            rebalance_timeout_ms=2,
            server_assignor=None,
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=1, supported_protocols=[ClassicProtocol(name="r", metadata=b"\xff")]
            ),
        ),
        "0005 000167 00016d",
        "0000 00 00 0263 032f68 02 0274 00 00000002 00 01 00 0c 01 00000001 02 0272 02ff 00 00",
    ),
    (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id="c",
            client_host="/h",
            subscribed_topic_names=[],
            subscribed_topic_regex="",
            rebalance_timeout_ms=2,
            server_assignor=None,
        ),
        "0005 000167 00016d",
        "0000 00 00 0263 032f68 01 01 00000002 00 01 00 01 00",
    ),
    (
        ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4),
        "0006 000167",
        "0000 00000004 00",
    ),
    (
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=2,
            previous_member_epoch=1,
            state=0,
            assigned_partitions=[CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=[0], assignment_epochs=[2])],
            partitions_pending_revocation=[],
        ),
        "0008 000167 00016d",
        "0000 00000002 00000001 00 02 00000000000040008000000000000091 0200000000 01 00 05 0200000002 01 00",
    ),
    (
        ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="a.*"),
        ConsumerGroupRegularExpressionValue(topics=["ab"], version=3, timestamp=4),
        "0010 000167 0003612e2a",
        "0000 02 036162 0000000000000003 0000000000000004 00",
    ),
]


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_record_types(cls):
    """Types and versions are those of Kafka 4.3; keys are never flexible."""
    name = cls.__name__.removesuffix("Key").removesuffix("Value")
    record_type, last, flexible = KAFKA_4_3[name]
    expected = (0, ANY_VERSION) if cls in KEYS else (last, flexible)
    assert (cls.api_key, cls.versions[0], (cls.versions[1], cls.flexible_since)) == (record_type, 0, expected)


def test_record_types_complete():
    """Every type has its key and its value."""
    assert {cls.__name__ for cls in MESSAGES} == {name + part for name in KAFKA_4_3 for part in ("Key", "Value")}


@pytest.mark.parametrize(("key", "value", "key_hex", "value_hex"), GOLDEN, ids=lambda value: type(value).__name__)
def test_record_bytes(key, value, key_hex, value_hex):
    """Records stand in the log as Kafka writes them."""
    assert encode_key(key).hex() == key_hex.replace(" ", "")
    assert encode_value(value).hex() == value_hex.replace(" ", "")
    assert decode_key(bytes.fromhex(key_hex)) == key
    assert decode_value(key, bytes.fromhex(value_hex)) == value


@pytest.mark.parametrize("cls", KEYS, ids=lambda cls: cls.__name__)
def test_record_round_trip(cls, messages):
    """Every key, and its value in every version, is read back."""
    value_cls = VALUES[cls.api_key]

    @settings(max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data):
        key = data.draw(messages(cls, 0))
        assert decode_key(memoryview(encode_key(key))) == key
        for version in range(value_cls.versions[1] + 1):
            value = data.draw(messages(value_cls, version))
            written = encode_value(value, version)
            again = decode_value(key, memoryview(written))
            assert type(again) is value_cls
            assert encode_value(again, version) == written

    check()


def test_legacy_offset_key():
    """A key of type 0 is that of a committed offset."""
    key = decode_key(bytes.fromhex("0000 000167 000174 00000005"))
    assert key == OffsetCommitKey(group="g", topic="t", partition=5)
    value = decode_value(key, bytes.fromhex("0000 0000000000000009 0000 0000000000000005"))
    assert value == OffsetCommitValue(offset=9, metadata="", commit_timestamp=5)


def test_unknown_type():
    """A record of a type that is not known, share and streams groups among them, has no key message."""
    assert decode_key(bytes.fromhex("0011 000167")) is None
    assert decode_key(bytes.fromhex("ffff")) is None


def test_version_of_another_time():
    """A version that a message does not have cannot be written."""
    with pytest.raises(Invalid, match="versions 0 to 4, not 5"):
        encode_value(OffsetCommitValue(offset=1, metadata="", commit_timestamp=0), 5)


@pytest.mark.parametrize("key", ["", "00", "0002 0001", "0002 000167 00"])
def test_key_refused(key):
    """A key with bytes too few or too many is refused."""
    with pytest.raises(DecodeError, match=r"cut off|claims 1 bytes|1 bytes follow a GroupMetadataKey"):
        decode_key(bytes.fromhex(key))


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("00", "GroupMetadataValue is cut off after 1 bytes"),
        ("0005 00", "GroupMetadataValue has version 5, known are 0 to 4"),
        ("ffff 00", "GroupMetadataValue has version -1"),
        ("0003 0000 00000000 ffff ffff ffffffffffffffff 00000000 00", "1 bytes follow a GroupMetadataValue v3"),
        ("0003 0000 00000000", "cut off"),
    ],
)
def test_value_refused(value, match):
    """A value with a version that is not known, bytes too few or too many is refused."""
    with pytest.raises(DecodeError, match=match):
        decode_value(GroupMetadataKey(group="g"), bytes.fromhex(value))


@pytest.mark.parametrize(("tagged", "timeout_ms"), [("00", None), ("01 00 0b 0000afc8 02 0272 02ff 00 00", 45_000)])
def test_members_that_were_written_without_a_presence_byte_are_read(tagged, timeout_ms):
    """As this broker wrote them once: nothing for a member of the new protocol, the struct alone for one of the old."""
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    found = decode_value(key, bytes.fromhex("0000 00 00 0263 032f68 01 01 00000002 00" + tagged))
    classic = found.classic_member_metadata
    assert (None if classic is None else classic.session_timeout_ms) == timeout_ms


def test_no_count_of_topics_is_too_large():
    """The limit of requests is for strangers: one member may have every topic of a large cluster, and is loaded again."""
    held = CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=[0], assignment_epochs=[1])
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=1,
        previous_member_epoch=0,
        state=0,
        assigned_partitions=[held] * (ELEMENTS_MAX // 3 + 1),
        partitions_pending_revocation=[],
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m")
    assert decode_value(key, encode_value(value)) == value
