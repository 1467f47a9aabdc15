"""The records of ``__transaction_state``: one key per transactional id, its latest value is the state.

Key and value begin with their version (int16), as in every coordinator's log. Values are written as Kafka writes
them under transaction.version 2: version 1, flexible (KIP-915), with the tagged fields of KIP-890; both versions are
read. ``kafka-dump-log --transaction-log-decoder`` prints them. Source: Kafka's ``TransactionLog``.
"""

from __future__ import annotations

from typing import Final

from stratalog.wire.schema import (
    DecodeError,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Struct,
    decode,
    decoder,
    encode_bytes,
    field,
)

__all__ = [
    "PartitionsSchema",
    "TransactionLogKey",
    "TransactionLogValue",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
]

_VERSION_BYTES: Final = 2
_KEY_VERSION: Final = 0
_VALUE_VERSION: Final = 1


class TransactionLogKey(Message, api_key=0, versions=(0, 0)):
    """The transactional id whose state follows."""

    transactional_id: str


class PartitionsSchema(Struct):
    """Partitions of one topic."""

    topic: str
    partition_ids: list[Int32]


class TransactionLogValue(Message, api_key=0, versions=(0, 1), flexible=1):
    """The state of a transactional id. ``transaction_status`` is `TransactionStatus`; times are of the wall clock.

    ``previous_producer_id``: the producer id before the last change; ``next_producer_id``: the one that the producer
    was given to go on with while the present one is still being ended (its epochs are used up).
    """

    producer_id: Int64
    previous_producer_id: Int64 = field(-1, since=1, tag=0)
    next_producer_id: Int64 = field(-1, since=1, tag=1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = field(-1, since=1, tag=3)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field(0, since=1, tag=2)


def encode_key(transactional_id: str) -> bytes:
    """The key of a transactional id's records."""
    key = TransactionLogKey(transactional_id=transactional_id)
    return _KEY_VERSION.to_bytes(_VERSION_BYTES, "big") + encode_bytes(key, _KEY_VERSION)


def decode_key(data: bytes) -> str | None:
    """The transactional id; None for a key version that is not known, which is to be skipped. Raises `DecodeError`."""
    version = _version(data)
    if version != _KEY_VERSION:
        return None
    return decode(TransactionLogKey, version, data, _VERSION_BYTES).transactional_id


def encode_value(value: TransactionLogValue, version: int = _VALUE_VERSION) -> bytes:
    """The value with its version in front."""
    return version.to_bytes(_VERSION_BYTES, "big") + encode_bytes(value, version)


def decode_value(data: bytes) -> TransactionLogValue:
    """The state in a record's value. Raises `DecodeError`, also for a version that is not known.

    Only its bytes bound its partitions: what a coordinator has written of a large cluster it must be able to load.
    """
    version = _version(data)
    if not 0 <= version <= _VALUE_VERSION:
        raise DecodeError(f"a transaction state has version {version}; known are 0 to {_VALUE_VERSION}")
    return decoder(TransactionLogValue, version)(data, _VERSION_BYTES, len(data))[0]


def _version(data: bytes) -> int:
    if len(data) < _VERSION_BYTES:
        raise DecodeError(f"a record of __transaction_state has {len(data)} bytes, not even a version")
    return int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
