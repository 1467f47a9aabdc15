"""The writes of a coordinator in one turn of the event loop, as batches of its log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from stratalog.hot.log.log import AppendInfo
from stratalog.metadata.coordination import CoordinatorRecord, Producer, Write
from stratalog.metadata.transactions.transaction import EPOCH_BUMP_SINCE
from stratalog.wire.batch import HEADER_BYTES, Record, build_batch, read_header
from stratalog.wire.compression import DECOMPRESSED_BYTES_MAX, Codec
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = [
    "BATCH_BYTES_MAX",
    "BATCH_RECORDS_MAX",
    "TURN_BYTES_MAX",
    "TURN_RECORDS_MAX",
    "Marker",
    "bars",
    "batch_of",
    "count_of_turn",
    "grouped",
    "parts_of",
]

BATCH_RECORDS_MAX: Final = 5_000
"""Records of one append, some hundred KiB: beyond, the loop would be kept from others for too long."""

BATCH_BYTES_MAX: Final = 1 << 20
"""Bytes of keys and values of one append, unless one write has more: members' metadata may be large, and what many of
them write in one turn must neither be refused together nor keep the loop from others."""

TURN_BYTES_MAX: Final = 1 << 22
"""Bytes that one turn of the loop appends, some 20 ms, unless one write has more; the next turn goes on."""

TURN_RECORDS_MAX: Final = 10_000
"""Records likewise: 4 MiB of tombstones are nearly 60,000, which take 130 ms."""

_RECORD_OVERHEAD_BYTES: Final = 32
"""At least as much as a record has in its batch besides key and value."""


class Marker(Struct):
    """The end of a transaction, in its place among the writes."""

    batch: bytearray
    transaction_version: int
    event: Any
    done: Callable[[AppendInfo | KafkaError], None]

    def ends(self, producer: Producer) -> bool:
        """Whether it ends the transaction of this producer and epoch; that of version 2 has an epoch above it."""
        header = read_header(self.batch)
        is_above = header.producer_epoch > producer.producer_epoch
        return header.producer_id == producer.producer_id and (is_above or self.transaction_version < EPOCH_BUMP_SINCE)


def bars(queued: Write | Marker, producer: Producer) -> bool:
    """Whether no record of this producer and epoch may stand behind it: it ends their transaction, or is of a newer epoch."""
    if isinstance(queued, Marker):
        return queued.ends(producer)
    other = queued.producer
    return other is not None and other.producer_id == producer.producer_id and other > producer


def parts_of(write: Write, segment_bytes: int, codec: Codec = Codec.NONE) -> list[Write]:
    """A write in one append, or in several, answered with the last; each batch fits into a segment of so many bytes.

    One that may be split has parts that take little time each. Any other is split only where no append could hold it:
    refused, it would be asked for again by the shard that is loaded anew, and so for ever. Records that are larger than
    a segment may fit in once they are packed by ``codec``; they are no larger than what a load unpacks of a batch. Raises
    RECORD_LIST_TOO_LARGE for a record that no append can hold.
    """
    sizes, bytes_max = [_record_bytes(record) for record in write.records], segment_bytes - HEADER_BYTES
    if codec is not Codec.NONE:
        bytes_max = min(bytes_max, DECOMPRESSED_BYTES_MAX)
    total_bytes = sum(sizes)
    if total_bytes > bytes_max:
        if not write.divisible and _fits_packed(write.records, total_bytes, segment_bytes, codec):
            return [write]
        for record, size_bytes in zip(write.records, sizes, strict=True):
            if size_bytes > bytes_max and not _fits_packed([record], size_bytes, segment_bytes, codec):
                reason = f"a record of {size_bytes} bytes does not fit into a batch (it may have {bytes_max})"
                raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, reason)
    count_max = BATCH_RECORDS_MAX if write.divisible else len(sizes)
    part_bytes_max = min(BATCH_BYTES_MAX, bytes_max) if write.divisible else bytes_max
    if total_bytes <= part_bytes_max and len(sizes) <= count_max:
        return [write]
    parts: list[Write] = []
    start = part_bytes = 0
    for at, size_bytes in enumerate(sizes):
        part_bytes += size_bytes
        if at > start and (part_bytes > part_bytes_max or at - start == count_max):
            parts.append(Write(write.records[start:at], producer=write.producer))
            start, part_bytes = at, size_bytes
    return [*parts, Write(write.records[start:], write.replies, write.producer, write.on_committed)]


def count_of_turn(queued: Sequence[Write | Marker]) -> int:
    """How many of these, from the first on, one turn of the loop appends."""
    count = size_bytes = 0
    for at, one in enumerate(queued):
        if isinstance(one, Marker):
            continue
        count += len(one.records)
        size_bytes += _size_bytes(one)
        if at and (size_bytes > TURN_BYTES_MAX or count > TURN_RECORDS_MAX):
            return at
    return len(queued)


def grouped(queued: Sequence[Write | Marker], segment_bytes: int) -> list[Marker | list[Write]]:
    """Writes that may share a batch: neighbours outside of transactions, up to a size, and to that of a segment."""
    bytes_max = min(BATCH_BYTES_MAX, segment_bytes - HEADER_BYTES)
    groups: list[Marker | list[Write]] = []
    open_group: list[Write] | None = None
    count = size_bytes = 0
    for one in queued:
        if isinstance(one, Marker):
            groups.append(one)
            open_group = None
            continue
        count += len(one.records)
        size_bytes += _size_bytes(one)
        full = count > BATCH_RECORDS_MAX or size_bytes > bytes_max
        if open_group is None or one.producer is not None or full:
            open_group, count, size_bytes = [], len(one.records), _size_bytes(one)
            groups.append(open_group)
        open_group.append(one)
        if one.producer is not None:
            open_group = None
    return groups


def _size_bytes(write: Write) -> int:
    return sum([_record_bytes(record) for record in write.records])


def _record_bytes(record: CoordinatorRecord) -> int:
    key, value = record
    return len(key) + (0 if value is None else len(value)) + _RECORD_OVERHEAD_BYTES


def _fits_packed(records: Sequence[CoordinatorRecord], size_bytes: int, segment_bytes: int, codec: Codec) -> bool:
    """Whether a segment can hold the batch of records that are larger than it as they are, and a load unpack it."""
    if codec is Codec.NONE or size_bytes > DECOMPRESSED_BYTES_MAX:
        return False
    return len(batch_of([Write(records)], codec, 0)) <= segment_bytes


def batch_of(writes: Sequence[Write], codec: Codec, wall_ms: int) -> bytearray:
    """The records of some writes in one batch; that of a transaction if they belong to one."""
    records = [record for write in writes for record in write.records]
    listed = [Record(at, wall_ms, key, value) for at, (key, value) in enumerate(records)]
    producer = writes[0].producer
    if producer is None:
        return build_batch(listed, codec=codec)
    return build_batch(
        listed,
        codec=codec,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transactional=True,
    )
