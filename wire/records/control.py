"""Control records: what brokers write into the log between the records of clients.

The key of a control record is a version, 0, and the type, both int16. The value begins with its own version, int16,
and is then the message; readers take a version newer than they know for the newest they know. Sources: Kafka's
``ControlRecordType``, ``EndTransactionMarker`` and ``ControlRecordUtils``; KIP-98, KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct as Packer
from typing import Final

from stratalog.wire.schema import (
    Buffer,
    DecodeError,
    Int16,
    Int32,
    Int64,
    Message,
    Struct,
    Uint16,
    Uuid,
    decode,
    encode_bytes,
    field,
)

__all__ = [
    "ControlType",
    "EndTxnMarker",
    "Endpoint",
    "KRaftVersionFeature",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "QuorumVoter",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "Voter",
    "VotersRecord",
    "decode_key",
    "decode_record",
    "encode_key",
    "encode_record",
]

_KEY: Final = Packer(">hh")
_VERSION: Final = Packer(">h")


class ControlType(IntEnum):
    """The kinds of control records."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTxnMarker(Message, versions=(0, 0)):
    """The end of a producer's transaction in this partition, committed or aborted as the type says."""

    coordinator_epoch: Int32


class Voter(Struct):
    """A voter by id and, from version 1 on, by directory."""

    voter_id: Int32
    voter_directory_id: Uuid = field(since=1)


class LeaderChangeMessage(Message, versions=(0, 1), flexible=0):
    """A leader of the metadata quorum begins its epoch with this."""

    leader_id: Int32
    voters: list[Voter]
    granting_voters: list[Voter]


class SnapshotHeaderRecord(Message, versions=(0, 0), flexible=0):
    """The first record of a snapshot; the time is that of the last record it contains, in ms."""

    last_contained_log_timestamp: Int64


class SnapshotFooterRecord(Message, versions=(0, 0), flexible=0):
    """The last record of a snapshot: without it the file is cut off."""


class KRaftVersionRecord(Message, versions=(0, 0), flexible=0):
    """The quorum's own feature level: 1 allows voters to change (KIP-853)."""

    kraft_version: Int16


class Endpoint(Struct):
    """One listener of a voter."""

    name: str
    host: str
    port: Uint16


class KRaftVersionFeature(Struct):
    """The levels of ``kraft.version`` that a voter can run."""

    min_supported_version: Int16
    max_supported_version: Int16


class QuorumVoter(Struct):
    """A voter with its directory and listeners."""

    voter_id: Int32
    voter_directory_id: Uuid
    endpoints: list[Endpoint]
    kraft_version_feature: KRaftVersionFeature


class VotersRecord(Message, versions=(0, 0), flexible=0):
    """The voters from here on (KIP-853)."""

    voters: list[QuorumVoter]


_MESSAGES: Final[dict[int, type[Message]]] = {
    ControlType.ABORT: EndTxnMarker,
    ControlType.COMMIT: EndTxnMarker,
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


def encode_key(kind: ControlType) -> bytes:
    """The key of a control record."""
    return _KEY.pack(0, kind)


def decode_key(key: Buffer) -> int:
    """The type in the key of a control record, also one that `ControlType` does not know. Raises `DecodeError`."""
    if len(key) < _KEY.size:
        raise DecodeError(f"the key of a control record has {_KEY.size} bytes, not {len(key)}")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise DecodeError(f"the key of a control record has version {version}")
    return int(kind)


def encode_record(record: Message, version: int = 0) -> bytes:
    """``record`` as the value of a control record. Raises `Invalid` for a version that the record does not have."""
    return _VERSION.pack(version) + encode_bytes(record, version)


def decode_record(kind: int, value: Buffer) -> Message:
    """The value of a control record of type ``kind``. Raises `DecodeError`, also for a type that is not known."""
    cls = _MESSAGES.get(kind)
    if cls is None:
        raise DecodeError(f"a control record has type {kind}, which is not known")
    if len(value) < _VERSION.size:
        raise DecodeError(f"the value of a {cls.__name__} is cut off after {len(value)} bytes")
    (version,) = _VERSION.unpack_from(value)
    if version < 0:
        raise DecodeError(f"a {cls.__name__} has version {version}")
    return decode(cls, min(version, cls.versions[1]), value, _VERSION.size)
