"""The records of ``__cluster_metadata``, from which every node builds its image of the cluster.

A record's value is the frame version 1, the record type and the version, each an unsigned varint, and then the
message. ``api_key`` is the record type. The names and numbers are Kafka's, so ``kafka-dump-log
--cluster-metadata-decoder`` reads our log. Sources: KIP-500, KIP-631, KIP-858 (directories), KIP-868 (metadata
transactions), KIP-966 (eligible leader replicas); Kafka's ``AbstractApiMessageSerde`` for the frame.
"""

from __future__ import annotations

from typing import Final

from stratalog.wire.primitives import read_unsigned_varint, unsigned_varint
from stratalog.wire.records.access import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    QuotaEntityData,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from stratalog.wire.schema import (
    Bool,
    Buffer,
    DecodeError,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Struct,
    Uint16,
    Uuid,
    decoder,
    encode_bytes,
    field,
)

__all__ = [
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerEndpoint",
    "BrokerFeature",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "ControllerEndpoint",
    "ControllerFeature",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "QuotaEntityData",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "ZkMigrationStateRecord",
    "decode_record",
    "encode_record",
]

_FRAME_VERSION: Final = 1


class BrokerEndpoint(Struct):
    """One listener of a broker. ``security_protocol``: 0 plaintext, 1 TLS, 2 SASL, 3 SASL over TLS."""

    name: str
    host: str
    port: Uint16
    security_protocol: Int16


class BrokerFeature(Struct):
    """The levels of a feature that a broker can run."""

    name: str
    min_supported_version: Int16
    max_supported_version: Int16


class RegisterBrokerRecord(Message, api_key=0, versions=(0, 4), flexible=0):
    """A broker process has registered; it stays fenced until it has caught up."""

    broker_id: Int32
    is_migrating_zk_broker: Bool = field(since=2)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: str | None
    fenced: Bool = field(True)
    in_controlled_shutdown: Bool = field(since=1)
    log_dirs: list[Uuid] = field(since=3, tag=0)
    cordoned_log_dirs: list[Uuid] | None = field(since=4, tag=1)


class UnregisterBrokerRecord(Message, api_key=1, versions=(0, 0), flexible=0):
    """A broker has left the cluster for good."""

    broker_id: Int32
    broker_epoch: Int64


class TopicRecord(Message, api_key=2, versions=(0, 0), flexible=0):
    """A topic exists."""

    name: str
    topic_id: Uuid


class PartitionRecord(Message, api_key=3, versions=(0, 2), flexible=0):
    """A partition in full. ``leader`` is -1 while there is none; ``leader_recovery_state`` is 1 after an unclean
    election, until the leader has recovered.
    """

    partition_id: Int32 = field(-1)
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32] = field()
    adding_replicas: list[Int32] = field()
    leader: Int32 = field(-1)
    leader_recovery_state: Int8 = field(tag=0)
    leader_epoch: Int32 = field(-1)
    partition_epoch: Int32 = field(-1)
    directories: list[Uuid] = field(since=1)
    eligible_leader_replicas: list[Int32] | None = field(since=2, tag=1)
    last_known_elr: list[Int32] | None = field(since=2, tag=2)


class ConfigRecord(Message, api_key=4, versions=(0, 0), flexible=0):
    """One config has this value, or with null none of its own. ``resource_type`` as in DescribeConfigs."""

    resource_type: Int8
    resource_name: str
    name: str
    value: str | None


class PartitionChangeRecord(Message, api_key=5, versions=(0, 2), flexible=0):
    """The changed fields of a partition: null, -2 and -1 (recovery state) leave
    a field as it is; ``leader`` -1 takes the leader away.
    """

    partition_id: Int32 = field(-1)
    topic_id: Uuid
    isr: list[Int32] | None = field(tag=0)
    leader: Int32 = field(-2, tag=1)
    replicas: list[Int32] | None = field(tag=2)
    removing_replicas: list[Int32] | None = field(tag=3)
    adding_replicas: list[Int32] | None = field(tag=4)
    leader_recovery_state: Int8 = field(-1, tag=5)
    directories: list[Uuid] | None = field(since=1, tag=8)
    eligible_leader_replicas: list[Int32] | None = field(since=2, tag=6)
    last_known_elr: list[Int32] | None = field(since=2, tag=7)


class FenceBrokerRecord(Message, api_key=7, versions=(0, 0), flexible=0):
    """A broker no longer counts as alive."""

    id: Int32
    epoch: Int64


class UnfenceBrokerRecord(Message, api_key=8, versions=(0, 0), flexible=0):
    """A broker counts as alive again."""

    id: Int32
    epoch: Int64


class RemoveTopicRecord(Message, api_key=9, versions=(0, 0), flexible=0):
    """A topic and everything about it is gone."""

    topic_id: Uuid


class FeatureLevelRecord(Message, api_key=12, versions=(0, 0), flexible=0):
    """A feature is at this level; every metadata log begins with ``metadata.version``. Level 0 removes it."""

    name: str
    feature_level: Int16


class ProducerIdsRecord(Message, api_key=15, versions=(0, 0), flexible=0):
    """Producer ids below ``next_producer_id`` have been handed out, the last block of them to this broker."""

    broker_id: Int32
    broker_epoch: Int64 = field(-1)
    next_producer_id: Int64


class BrokerRegistrationChangeRecord(Message, api_key=17, versions=(0, 3), flexible=0):
    """A registration has changed. ``fenced`` and ``in_controlled_shutdown``: 1 now true, 0 unchanged, -1 now false."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = field(tag=0)
    in_controlled_shutdown: Int8 = field(since=1, tag=1)
    log_dirs: list[Uuid] = field(since=2, tag=2)
    cordoned_log_dirs: list[Uuid] | None = field(since=3, tag=3)


class NoOpRecord(Message, api_key=20, versions=(0, 0), flexible=0):
    """Holds no data: moves the high watermark of an idle metadata log."""


class BeginTransactionRecord(Message, api_key=23, versions=(0, 0), flexible=0):
    """The records up to the end marker take effect together (KIP-868)."""

    name: str | None = field(tag=0)


class EndTransactionRecord(Message, api_key=24, versions=(0, 0), flexible=0):
    """The records since the begin marker take effect."""


class AbortTransactionRecord(Message, api_key=25, versions=(0, 0), flexible=0):
    """The records since the begin marker are void."""

    reason: str | None = field(tag=0)


class ControllerEndpoint(Struct):
    """One listener of a controller. ``security_protocol`` as in `BrokerEndpoint`."""

    name: str
    host: str
    port: Uint16
    security_protocol: Int16


class ControllerFeature(Struct):
    """The levels of a feature that a controller can run."""

    name: str
    min_supported_version: Int16
    max_supported_version: Int16


class RegisterControllerRecord(Message, api_key=27, versions=(0, 0), flexible=0):
    """A controller process has registered."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]


class ZkMigrationStateRecord(Message, api_key=21, versions=(0, 0), flexible=0):
    """How far a cluster had come on its way from ZooKeeper (KIP-866). Kafka reads it since 4.0 and does nothing."""

    zk_migration_state: Int8


class ClearElrRecord(Message, api_key=28, versions=(0, 0), flexible=0):
    """The eligible leader replicas of a topic, or with an empty name of all topics, are void (KIP-966)."""

    topic_name: str


_RECORDS: Final[dict[int, type[Message]]] = {
    record.api_key: record
    for record in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        FeatureLevelRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        NoOpRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RegisterControllerRecord,
        ClearElrRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        UserScramCredentialRecord,
        RemoveUserScramCredentialRecord,
        ClientQuotaRecord,
        DelegationTokenRecord,
        RemoveDelegationTokenRecord,
        ZkMigrationStateRecord,
    )
}


def encode_record(record: Message, version: int | None = None) -> bytes:
    """``record`` as the value of a record of the metadata log, in its newest version unless told otherwise.

    Raises `Invalid` for a version that the record does not have, `EncodeError` for a value it cannot hold.
    """
    chosen = record.versions[1] if version is None else version
    frame = unsigned_varint(_FRAME_VERSION) + unsigned_varint(record.api_key) + unsigned_varint(chosen)
    return frame + encode_bytes(record, chosen)


def decode_record(value: Buffer) -> Message:
    """The inverse of :func:`encode_record`, for any version.

    Raises `DecodeError` for a frame, type or version that is not known, and for bytes left over.
    """
    frame_version, position = read_unsigned_varint(value, 0)
    if frame_version != _FRAME_VERSION:
        raise DecodeError(f"a metadata record has frame version {frame_version}, only {_FRAME_VERSION} is known")
    record_type, position = read_unsigned_varint(value, position)
    version, position = read_unsigned_varint(value, position)
    cls = _RECORDS.get(record_type)
    if cls is None:
        raise DecodeError(f"a metadata record has type {record_type}, which is not known")
    first, last = cls.versions
    if not first <= version <= last:
        raise DecodeError(f"a {cls.__name__} has version {version}, known are {first} to {last}")
    record, end = decoder(cls, version)(value, position)
    if end != len(value):
        raise DecodeError(f"{len(value) - end} bytes follow a {cls.__name__} v{version}")
    return record
