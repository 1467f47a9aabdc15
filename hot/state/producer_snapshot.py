"""The ``.snapshot`` file: the producers of a partition as they stood at one offset.

.. code-block:: text

    int16 version = 1    uint32 CRC-32C of everything behind it    int32 count
    per producer, 46 bytes:
      int64 producer id   int16 epoch   int32 last sequence   int64 last offset   int32 offset delta
      int64 timestamp     int32 coordinator epoch             int64 first offset of the open transaction, -1

The file name is the offset (exclusive) up to which the log was applied. Source: Kafka's ``ProducerStateManager``.

Kafka keeps the last batch of a producer, so that one of its five last batches that comes again after a restart is out of
order to it: librdkafka gives up then, and Java's producer may write it twice. We write a row for each of the five, with its own
time, and the last one at the end with the time of the producer, which a marker may have moved. Kafka takes the last row
of a producer, and so reads what it writes. With more than `ALL_BATCHES_MAX` producers only their last batches are written, as a roll
waits for the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from stratalog.wire.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from stratalog.wire.errors import Corrupt

__all__ = [
    "ALL_BATCHES_MAX",
    "BATCHES_KEPT",
    "BatchMetadata",
    "ProducerEntry",
    "is_whole",
    "snapshot_from_bytes",
    "snapshot_to_bytes",
]

BATCHES_KEPT: Final = 5
"""How many of a producer's last batches are recognised when they come again."""

_VERSION: Final = 1
_HEADER: Final = Struct(">hIi")
_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_END: Final = 6
_BATCH: Final = Struct(">iqiq")
_KEPT_BYTES: Final = BATCHES_KEPT * _BATCH.size
_SEQUENCES: Final = 1 << 31
ALL_BATCHES_MAX: Final = 5_000
"""A snapshot of so many producers has all their batches. It takes some 20 ms, in one step."""


class BatchMetadata(NamedTuple):
    """One of a producer's last batches."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        """The sequence of its first record; sequences wrap from 2³¹-1 to 0."""
        return (self.last_sequence - self.offset_delta) % _SEQUENCES

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry(msgspec.Struct):
    """The state of one producer id in a partition."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp_ms: int = NO_TIMESTAMP
    transaction_first_offset: int = -1
    """Where the open transaction began in this partition, -1 when none is open."""
    kept: bytes = b""
    """The last batches of the current epoch, packed: a broker remembers 100,000 producers in some 50 MB."""
    awaited_sequence: int = NO_SEQUENCE
    """The sequence of its first batch in this epoch if that found no room and comes again; in memory only, -1 for none."""

    @property
    def batches(self) -> list[BatchMetadata]:
        """The last batches of the current epoch, oldest first."""
        return [BatchMetadata(*fields) for fields in _BATCH.iter_unpack(self.kept)]

    def remember(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp_ms: int) -> None:
        """One more batch; the oldest of too many is forgotten."""
        self.kept = (self.kept + _BATCH.pack(last_sequence, last_offset, offset_delta, timestamp_ms))[-_KEPT_BYTES:]

    @property
    def last_sequence(self) -> int:
        """The last sequence written in the current epoch, -1 when none was."""
        kept = self.kept
        return int(_BATCH.unpack_from(kept, len(kept) - _BATCH.size)[0]) if kept else NO_SEQUENCE

    @property
    def last_batch(self) -> BatchMetadata | None:
        """The last batch written in the current epoch, None when none was."""
        kept = self.kept
        return BatchMetadata(*_BATCH.unpack_from(kept, len(kept) - _BATCH.size)) if kept else None

    @property
    def oldest_duplicate_offset(self) -> int:
        """The lowest offset of a transactional batch that may come again: of the open transaction, if there is one."""
        return self.transaction_first_offset if self.transaction_first_offset >= 0 else self.last_offset + 1

    @property
    def last_offset(self) -> int:
        """The offset of the last record written in the current epoch, -1 when none was."""
        last = self.last_batch
        return -1 if last is None else last.last_offset


_NO_BATCH: Final = (NO_SEQUENCE, -1, 0, NO_TIMESTAMP)


def snapshot_to_bytes(entries: Iterable[ProducerEntry]) -> bytes:
    """The content of a snapshot file."""
    every = list(entries)
    kept_bytes = _KEPT_BYTES if len(every) <= ALL_BATCHES_MAX else _BATCH.size
    rows = [bytes(_HEADER.size)]
    add, pack = rows.append, _ENTRY.pack
    for entry in every:
        producer_id, epoch, coordinator_epoch = entry.producer_id, entry.producer_epoch, entry.coordinator_epoch
        batches = list(_BATCH.iter_unpack(entry.kept[-kept_bytes:])) or [_NO_BATCH]
        sequence, offset, delta, timestamp_ms = batches[-1]
        if timestamp_ms == entry.last_timestamp_ms or kept_bytes == _BATCH.size:
            del batches[-1]
        for row in batches if entry.kept else ():
            add(pack(producer_id, epoch, *row, coordinator_epoch, -1))
        end = entry.transaction_first_offset
        add(pack(producer_id, epoch, sequence, offset, delta, entry.last_timestamp_ms, coordinator_epoch, end))
    body = bytearray().join(rows)
    count = len(rows) - 1
    _HEADER.pack_into(body, 0, _VERSION, 0, count)
    _HEADER.pack_into(body, 0, _VERSION, crc32c(memoryview(body)[_CRC_END:]), count)
    return bytes(body)


def is_whole(data: bytes) -> bool:
    """Whether `snapshot_from_bytes` takes it, without all the work."""
    try:
        _check(data)
    except Corrupt:
        return False
    return True


def _check(data: bytes) -> None:
    """Raise `Corrupt` unless these are the bytes of a snapshot, as they were written."""
    if len(data) < _HEADER.size:
        raise Corrupt(f"a producer snapshot of {len(data)} bytes is too short")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise Corrupt(f"producer snapshot version {version} is unknown")
    if crc != crc32c(memoryview(data)[_CRC_END:]):
        raise Corrupt(f"the producer snapshot's CRC is not {crc:#010x}")
    if count < 0 or _HEADER.size + count * _ENTRY.size != len(data):
        raise Corrupt(f"a producer snapshot of {len(data)} bytes cannot hold {count} producers")


def snapshot_from_bytes(data: bytes) -> list[ProducerEntry]:
    """Parse a snapshot file. Raises `Corrupt`; the caller then takes an older one and replays the log."""
    _check(data)
    entries: list[ProducerEntry] = []
    entry, newest_offset = None, -1
    for fields in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :]):
        producer_id, epoch, sequence, last_offset, delta, timestamp_ms, coordinator_epoch, first_offset = fields
        if entry is None or entry.producer_id != producer_id or entry.producer_epoch != epoch:
            entry, newest_offset = ProducerEntry(producer_id, epoch), -1
            entries.append(entry)
        entry.coordinator_epoch, entry.last_timestamp_ms = coordinator_epoch, timestamp_ms
        entry.transaction_first_offset = first_offset
        if last_offset > newest_offset:
            entry.remember(sequence, last_offset, delta, timestamp_ms)
            newest_offset = last_offset
    return entries
