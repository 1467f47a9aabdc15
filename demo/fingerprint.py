"""One number for "the same records in the same order": an order-sensitive hash of everything a reader sees."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple

__all__ = ["Fingerprint", "combine", "partition_digest"]

_FIXED = Struct(">iqqii")


class Fingerprint(NamedTuple):
    """How many records, and the hash over (partition, offset, key, value, timestamp) in order."""

    count: int
    digest: str

    def __str__(self) -> str:
        return f"{self.count:,} records, sha256 {self.digest[:16]}…"


def partition_digest(partition: int, records: Iterable[tuple[int, bytes | None, bytes | None, int]]) -> tuple[int, str]:
    """``(count, sha256)`` of one partition's (offset, key, value, timestamp in ms), in the order given."""
    digest = hashlib.sha256()
    count = 0
    for offset, key, value, timestamp_ms in records:
        key_bytes, value_bytes = key or b"", value or b""
        sizes = (-1 if key is None else len(key), -1 if value is None else len(value))
        digest.update(_FIXED.pack(partition, offset, timestamp_ms, *sizes))
        digest.update(key_bytes)
        digest.update(value_bytes)
        count += 1
    return count, digest.hexdigest()


def combine(partitions: Mapping[int, tuple[int, str]]) -> Fingerprint:
    """One fingerprint of all partitions that hold anything, in the order of their numbers."""
    present = {partition: result for partition, result in partitions.items() if result[0]}
    text = "".join(f"{partition}:{count}:{digest};" for partition, (count, digest) in sorted(present.items()))
    return Fingerprint(sum(count for count, _ in present.values()), hashlib.sha256(text.encode()).hexdigest())
