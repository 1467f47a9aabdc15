"""The cleaner's memory: the newest offset of each key in the dirty section of a log, in a bounded number of bytes.

A key of at most 15 bytes is its own fingerprint; a longer one is known by 128 bits of BLAKE2b, as Kafka's
``SkimpyOffsetMap`` knows all of them by MD5. Entries of one bucket lie behind each other in one byte array, where
``bytearray.find`` looks for them: 24 bytes an entry and no Python object, a quarter of what a dictionary takes.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import Final

__all__ = ["SLOT_BYTES", "OffsetMap"]

SLOT_BYTES: Final = 40
"""Memory of one entry, with its share of what the buckets themselves take and of the room in which they grow."""

_FINGERPRINT_BYTES: Final = 16
_SHORT_MAX: Final = 15
_ENTRY_BYTES: Final = 24
_BUCKET_ENTRIES: Final = 24
_OFFSET: Final = Struct("=q")
_LENGTHS: Final = tuple(bytes([length]) for length in range(_SHORT_MAX + 1))


def _fingerprint(key: bytes) -> bytes:
    """16 bytes: a short key, filled up, and its length; the digest of a longer one."""
    length = len(key)
    if length <= _SHORT_MAX:
        return key.ljust(_SHORT_MAX, b"\0") + _LENGTHS[length]
    return blake2b(key, digest_size=_FINGERPRINT_BYTES).digest()


class OffsetMap:
    """Keys and their newest offsets, up to ``limit`` keys.

    ``latest_offset`` is where the section that the map knows ends: nothing is told of records behind it.
    """

    __slots__ = ("_bucket_count", "_buckets", "count", "latest_offset", "limit")

    def __init__(self, buffer_bytes: int, load_factor: float, *, keys_max: int | None = None) -> None:
        """At most ``load_factor`` of the slots in ``buffer_bytes`` are used; ``keys_max``: there are no more keys.

        One key always fits, so that a cleaning gets on.
        """
        self.limit = max(int(buffer_bytes // SLOT_BYTES * load_factor), 1)
        expected = self.limit if keys_max is None else min(self.limit, max(keys_max, 1))
        self._bucket_count = expected // _BUCKET_ENTRIES + 1
        self._buckets = [bytearray() for _ in range(self._bucket_count)]
        self.count = 0
        self.latest_offset = -1

    @property
    def is_full(self) -> bool:
        """Whether no further key is taken in. The offsets of known keys may still move."""
        return self.count >= self.limit

    def put(self, key: bytes, offset: int) -> None:
        """``offset`` is the newest of ``key``."""
        fingerprint = _fingerprint(key)
        bucket = self._buckets[hash(fingerprint) % self._bucket_count]
        at = bucket.find(fingerprint)
        while at >= 0 and at % _ENTRY_BYTES:
            at = bucket.find(fingerprint, at + 1)
        if at >= 0:
            _OFFSET.pack_into(bucket, at + _FINGERPRINT_BYTES, offset)
        else:
            bucket += fingerprint + _OFFSET.pack(offset)
            self.count += 1

    def get(self, key: bytes) -> int:
        """The newest offset of ``key``; -1 for one that the section does not hold."""
        fingerprint = _fingerprint(key)
        bucket = self._buckets[hash(fingerprint) % self._bucket_count]
        at = bucket.find(fingerprint)
        while at >= 0 and at % _ENTRY_BYTES:
            at = bucket.find(fingerprint, at + 1)
        if at < 0:
            return -1
        newest: int = _OFFSET.unpack_from(bucket, at + _FINGERPRINT_BYTES)[0]
        return newest
