"""The cleaner's memory: the newest offset of each key in the dirty section of a log, in a bounded number of bytes.

A key of at most 15 bytes is its own fingerprint; a longer one is known by 128 bits of BLAKE2b, as Kafka's
``SkimpyOffsetMap`` knows all of them by MD5. Entries of one bucket lie behind each other in one byte array, where
``bytearray.find`` looks for them: 24 bytes an entry and no Python object, a quarter of what a dictionary takes.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import Final

__all__ = ["NEWEST", "NEWEST_TOMBSTONE", "SLOT_BYTES", "OffsetMap"]

SLOT_BYTES: Final = 40
"""Memory of one entry, with its share of what the buckets themselves take and of the room in which they grow."""

NEWEST: Final = 1
"""A mark: this record is the newest of its key."""
_TOMBSTONE: Final = 2
NEWEST_TOMBSTONE: Final = NEWEST | _TOMBSTONE

_TABLE_SHARE: Final = 8
_FINGERPRINT_BYTES: Final = 16
_SHORT_MAX: Final = 15
_ENTRY_BYTES: Final = 24
_BUCKET_ENTRIES: Final = 24
_OFFSET: Final = Struct("=q")
_ENTRY: Final = Struct("=16xq")
_LENGTHS: Final = tuple(bytes([length]) for length in range(_SHORT_MAX + 1))


def _fingerprint(key: bytes) -> bytes:
    """16 bytes: a short key, filled up, and its length; the digest of a longer one."""
    length = len(key)
    if length <= _SHORT_MAX:
        return key.ljust(_SHORT_MAX, b"\0") + _LENGTHS[length]
    return blake2b(key, digest_size=_FINGERPRINT_BYTES).digest()


class OffsetMap:
    """Keys of a section of the log and their newest offsets, up to ``limit`` keys.

    ``latest_offset`` is where the part that the map knows ends; it has no answer for records behind it. Once every key
    is in, `close` makes a table of the section itself, a byte an offset, so that no key there is looked up again.
    """

    __slots__ = ("_bucket_count", "_buckets", "_marks", "_start", "count", "latest_offset", "limit")

    def __init__(self, buffer_bytes: int, load_factor: float, start_offset: int = 0, end_offset: int = 1 << 62) -> None:
        """At most ``load_factor`` of the slots in ``buffer_bytes`` are used, for ``[start_offset, end_offset)``.

        One key always fits, so that a cleaning gets on. The table may take an eighth of the buffer; a section that is
        too long for that does without.
        """
        length = max(end_offset - start_offset, 1)
        table_bytes = length if length <= buffer_bytes // _TABLE_SHARE else 0
        self.limit = max(int((buffer_bytes - table_bytes) // SLOT_BYTES * load_factor), 1)
        self._bucket_count = min(self.limit, length) // _BUCKET_ENTRIES + 1
        self._buckets = [bytearray() for _ in range(self._bucket_count)]
        self._start = start_offset
        self._marks = bytearray(length) if table_bytes else None
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

    # -- the table ----------------------------------------------------------------------------------------

    def note_tombstone(self, offset: int) -> None:
        """The record at ``offset`` has no value."""
        if self._marks is not None:
            self._marks[offset - self._start] = _TOMBSTONE

    def close(self) -> None:
        """Every key is in: mark the newest record of each."""
        marks, start = self._marks, self._start
        if marks is None:
            return
        for bucket in self._buckets:
            for (offset,) in _ENTRY.iter_unpack(bucket):
                marks[offset - start] |= NEWEST

    def marks(self, base_offset: int, last_offset: int) -> bytes | None:
        """A byte for each offset: `NEWEST`, `NEWEST_TOMBSTONE` or another; None for what the table does not cover."""
        if self._marks is None or base_offset < self._start or last_offset > self.latest_offset:
            return None
        return bytes(self._marks[base_offset - self._start : last_offset - self._start + 1])
