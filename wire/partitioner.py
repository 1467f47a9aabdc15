"""Where names and keys land: the partition of a key, and the coordinator partition of a group.

The hash of keys is MurmurHash2 (Austin Appleby; 32 bits, seed 0x9747b28c) as Kafka's ``Utils.murmur2`` computes it,
made positive by dropping the sign bit. Groups and transactional ids use Java's ``String.hashCode`` and Kafka's
``Utils.abs``, which maps the one number without a positive counterpart to 0.
"""

from __future__ import annotations

from typing import Final

__all__ = ["coordinator_partition", "java_string_hash", "murmur2", "partition_of_key"]

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_SIGN: Final = 0x80000000


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit hash of ``data``."""
    length = len(data)
    whole = length & ~3
    value = _SEED ^ length
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _WORD
        word = (word ^ (word >> 24)) * _MULTIPLIER & _WORD
        value = (value * _MULTIPLIER & _WORD) ^ word
    if length != whole:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _WORD
    value = (value ^ (value >> 13)) * _MULTIPLIER & _WORD
    return value ^ (value >> 15)


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition, of ``partition_count``, that a record with this key belongs to."""
    return (murmur2(key) & _POSITIVE) % partition_count


def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode``: over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] | units[position + 1] << 8)) & _WORD
    return value - (1 << 32) if value & _SIGN else value


def coordinator_partition(name: str, partition_count: int) -> int:
    """The partition of ``__consumer_offsets`` (or ``__transaction_state``) whose leader coordinates ``name``."""
    value = java_string_hash(name)
    positive = 0 if value == -_SIGN else abs(value)
    return positive % partition_count
