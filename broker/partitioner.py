"""Where keys land: Kafka's default partitioner, so that our producer and Java's agree on every key. Pure.

The hash is MurmurHash2 (Austin Appleby, 32 bits, seed 0x9747b28c) as ``org.apache.kafka.common.utils.Utils`` computes
it, made positive by dropping the sign bit.
"""

from __future__ import annotations

from typing import Final

__all__ = ["murmur2", "partition_of_key"]

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_SHIFT: Final = 24
_WORD: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit hash of ``data``."""
    length = len(data)
    whole = length & ~3
    value = _SEED ^ length
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _WORD
        word = (word ^ (word >> _SHIFT)) * _MULTIPLIER & _WORD
        value = (value * _MULTIPLIER & _WORD) ^ word
    if length != whole:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _WORD
    value = (value ^ (value >> 13)) * _MULTIPLIER & _WORD
    return value ^ (value >> 15)


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition, of ``partition_count``, that a record with this key belongs to."""
    return (murmur2(key) & _POSITIVE) % partition_count
