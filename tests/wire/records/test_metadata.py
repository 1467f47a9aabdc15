"""Records of ``__cluster_metadata``: the frame of Kafka's AbstractApiMessageSerde and the messages in it."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.wire.errors import Invalid
from stratalog.wire.records import metadata
from stratalog.wire.records.metadata import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from stratalog.wire.schema import DecodeError, Message, decode, encode_bytes

RECORDS = [
    value
    for value in vars(metadata).values()
    if isinstance(value, type) and issubclass(value, Message) and value is not Message
]
TOPIC_ID = bytes.fromhex("00000000000040008000000000000091")
DIRECTORY = bytes.fromhex("10000000000040008000000000000001")

# partition; topic id; replicas, isr, removing, adding; leader, its epoch, partition epoch; directories; tags
PARTITION_VALUE = (
    "01 03 01 00000001 00000000000040008000000000000091 0200000001 0200000001 01 01 "
    "00000001 00000000 00000000 0210000000000040008000000000000001 00"
)

# Kafka 4.3: record types with first and last version.
KAFKA_4_3 = {
    "RegisterBrokerRecord": (0, 4),
    "UnregisterBrokerRecord": (1, 0),
    "TopicRecord": (2, 0),
    "PartitionRecord": (3, 2),
    "ConfigRecord": (4, 0),
    "PartitionChangeRecord": (5, 2),
    "FenceBrokerRecord": (7, 0),
    "UnfenceBrokerRecord": (8, 0),
    "RemoveTopicRecord": (9, 0),
    "UserScramCredentialRecord": (11, 0),
    "FeatureLevelRecord": (12, 0),
    "ClientQuotaRecord": (14, 0),
    "AccessControlEntryRecord": (18, 0),
    "RemoveAccessControlEntryRecord": (19, 0),
    "ProducerIdsRecord": (15, 0),
    "BrokerRegistrationChangeRecord": (17, 3),
    "NoOpRecord": (20, 0),
    "RemoveUserScramCredentialRecord": (22, 0),
    "BeginTransactionRecord": (23, 0),
    "EndTransactionRecord": (24, 0),
    "AbortTransactionRecord": (25, 0),
    "RegisterControllerRecord": (27, 0),
    "ClearElrRecord": (28, 0),
    "DelegationTokenRecord": (10, 0),
    "RemoveDelegationTokenRecord": (26, 0),
    "ZkMigrationStateRecord": (21, 0),
}

GOLDEN = [
    # frame version, type, version; name; level; tags
    (
        FeatureLevelRecord(name="metadata.version", feature_level=20),
        0,
        "01 0c 00 116d657461646174612e76657273696f6e 0014 00",
    ),
    # name; topic id; tags
    (TopicRecord(name="saz", topic_id=TOPIC_ID), 0, "01 02 00 0473617a 00000000000040008000000000000091 00"),
    (
        PartitionRecord(
            partition_id=1,
            topic_id=TOPIC_ID,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[DIRECTORY],
        ),
        1,
        PARTITION_VALUE,
    ),
    (ConfigRecord(resource_type=2, resource_name="t", name="k", value=None), 0, "01 04 00 02 0274 026b 00 00"),
    # partition; topic id; two tags: isr and leader
    (
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[1, 2], leader=-1),
        0,
        "01 05 00 00000000 00000000000040008000000000000091 02 00 09 030000000100000002 01 04 ffffffff",
    ),
    # broker; epoch; one tag: no longer fenced
    (
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1),
        1,
        "01 11 01 00000001 0000000000000007 01 00 01 ff",
    ),
    (NoOpRecord(), 0, "01 14 00 00"),
    (BeginTransactionRecord(name="b"), 0, "01 17 00 01 00 02 0262"),
]


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_record_types(cls):
    """Types and versions are those of Kafka 4.3, and every one of them is flexible."""
    record_type, last = KAFKA_4_3[cls.__name__]
    assert (cls.api_key, cls.versions, cls.flexible_since) == (record_type, (0, last), 0)


def test_record_types_complete():
    """Every record type that is declared can be decoded."""
    assert {cls.__name__ for cls in RECORDS} == set(KAFKA_4_3)


@pytest.mark.parametrize(("record", "version", "value"), GOLDEN, ids=lambda value: type(value).__name__)
def test_record_bytes(record, version, value):
    """Records stand in the log as Kafka writes them."""
    assert encode_record(record, version).hex() == value.replace(" ", "")
    assert decode_record(bytes.fromhex(value)) == record


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_record_round_trip(cls, messages):
    """Every record in every version is read back."""

    @settings(max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data):
        for version in range(cls.versions[1] + 1):
            record = data.draw(messages(cls, version))
            value = encode_record(record, version)
            again = decode_record(memoryview(value))
            assert type(again) is cls
            assert encode_record(again, version) == value
            assert decode(cls, version, encode_bytes(record, version)) == again

    check()


def test_newest_version():
    """Without a version a record is written in its newest one."""
    assert encode_record(PartitionRecord(topic_id=TOPIC_ID, replicas=[], isr=[]))[:3] == b"\x01\x03\x02"
    with pytest.raises(Invalid, match="versions 0 to 2, not 3"):
        encode_record(PartitionRecord(topic_id=TOPIC_ID, replicas=[], isr=[]), 3)


def test_change_defaults():
    """A change record says nothing about what is not set."""
    change = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID)
    assert (change.leader, change.leader_recovery_state, change.isr, change.replicas) == (-2, -1, None, None)
    assert encode_record(change).endswith(TOPIC_ID + b"\0")


def test_registration_default():
    """A broker that registers is fenced unless told otherwise."""
    record = RegisterBrokerRecord(
        broker_id=1, incarnation_id=bytes(16), broker_epoch=2, end_points=[], features=[], rack=None
    )
    assert record.fenced
    assert not record.in_controlled_shutdown


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("", "cut off"),
        ("00 14 00 00", "frame version 0"),
        ("02 14 00 00", "frame version 2"),
        ("01 63 00 00", "type 99"),
        ("01 14 01 00", "NoOpRecord has version 1"),
        ("01 14 00 00 00", "1 bytes follow a NoOpRecord v0"),
        ("01 14 00", "NoOpRecord v0: the message is cut off"),
        ("01 04 00 02 00", "resource_name is null"),
    ],
)
def test_record_refused(value, match):
    """A frame, type or version that is not known, bytes too few or too many are refused."""
    with pytest.raises(DecodeError, match=match):
        decode_record(bytes.fromhex(value))
