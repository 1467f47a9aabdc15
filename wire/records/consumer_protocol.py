"""The opaque bytes that consumers write in the classic protocol: subscriptions and assignments.

Each begins with its version, int16; a version that is newer than known is read as the newest that is known, which it
begins with. The coordinator reads them where members of both protocols share a group. Sources: Kafka's
``ConsumerProtocol``; KIP-429 (owned partitions), KIP-792 (generation), KIP-881 (rack).
"""

from __future__ import annotations

from struct import Struct as Packer
from typing import Final, TypeVar

from stratalog.wire.schema import (
    ELEMENTS_MAX,
    Buffer,
    DecodeError,
    Int32,
    Message,
    Struct,
    decoder,
    encode_bytes,
    field,
)

__all__ = [
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "OwnedPartitions",
    "decode_assignment",
    "decode_subscription",
    "encode_protocol",
    "protocol_version",
]

_VERSION: Final = Packer(">h")
M = TypeVar("M", bound=Message)


class OwnedPartitions(Struct):
    """Partitions of one topic."""

    topic: str
    partitions: list[Int32]


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    """The topics a consumer wants, and the partitions it has."""

    topics: list[str]
    user_data: bytes | None = field(None)
    owned_partitions: list[OwnedPartitions] = field(since=1)
    generation_id: Int32 = field(-1, since=2)
    rack_id: str | None = field(None, since=3)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    """The partitions that a consumer is given."""

    assigned_partitions: list[OwnedPartitions]
    user_data: bytes | None = field(None)


def protocol_version(data: Buffer) -> int:
    """The version that a subscription or an assignment names. Raises `DecodeError`."""
    if len(data) < _VERSION.size:
        raise DecodeError(f"consumer protocol data is cut off after {len(data)} bytes")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"consumer protocol data has version {version}")
    return int(version)


def decode_subscription(data: Buffer, elements_max: int = ELEMENTS_MAX) -> ConsumerProtocolSubscription:
    """A subscription of any version, with at most so many topics and partitions. Raises `DecodeError`."""
    return _decode(ConsumerProtocolSubscription, data, elements_max)


def decode_assignment(data: Buffer, elements_max: int = ELEMENTS_MAX) -> ConsumerProtocolAssignment:
    """An assignment of any version, with at most so many topics and partitions. Raises `DecodeError`."""
    return _decode(ConsumerProtocolAssignment, data, elements_max)


def encode_protocol(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    """The bytes of a subscription or an assignment, in this version or the newest that is known. Raises `EncodeError`."""
    chosen = min(version, message.versions[1])
    return _VERSION.pack(chosen) + encode_bytes(message, chosen)


def _decode(cls: type[M], data: Buffer, elements_max: int) -> M:
    version = min(protocol_version(data), cls.versions[1])
    return decoder(cls, version)(data, _VERSION.size, elements_max)[0]
