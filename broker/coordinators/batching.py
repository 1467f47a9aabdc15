"""The writes of a coordinator in one turn of the event loop, as batches of its log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from stratalog.hot.log.log import AppendInfo
from stratalog.metadata.coordination import Producer, Write
from stratalog.metadata.transactions.transaction import EPOCH_BUMP_SINCE
from stratalog.wire.batch import Record, build_batch, read_header
from stratalog.wire.compression import Codec
from stratalog.wire.errors import KafkaError

__all__ = ["BATCH_BYTES_MAX", "BATCH_RECORDS_MAX", "Marker", "batch_of", "grouped", "parts_of"]

BATCH_RECORDS_MAX: Final = 5_000
"""Records of one append, some hundred KiB: beyond, the loop would be kept from others for too long."""

BATCH_BYTES_MAX: Final = 1 << 20
"""Bytes of keys and values of one append, unless one write has more: members' metadata may be large, and what many of
them write in one turn must neither be refused together nor keep the loop from others."""


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


def parts_of(write: Write) -> list[Write]:
    """A write in one append; one of very many records that may be split in several, answered with the last."""
    records = write.records
    if not write.divisible:
        return [write]
    starts = [0]
    size_bytes = 0
    for at, (key, value) in enumerate(records):
        record_bytes = len(key) + (0 if value is None else len(value))
        if at > starts[-1] and (at - starts[-1] == BATCH_RECORDS_MAX or size_bytes + record_bytes > BATCH_BYTES_MAX):
            starts.append(at)
            size_bytes = 0
        size_bytes += record_bytes
    if len(starts) == 1:
        return [write]
    parts = [Write(records[first:end]) for first, end in zip(starts, [*starts[1:], len(records)], strict=True)]
    parts[-1].replies, parts[-1].on_committed = write.replies, write.on_committed
    return parts


def grouped(queued: Sequence[Write | Marker]) -> list[Marker | list[Write]]:
    """Writes that may share a batch: neighbours outside of transactions, up to a size."""
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
        full = count > BATCH_RECORDS_MAX or size_bytes > BATCH_BYTES_MAX
        if open_group is None or one.producer is not None or full:
            open_group, count, size_bytes = [], len(one.records), _size_bytes(one)
            groups.append(open_group)
        open_group.append(one)
        if one.producer is not None:
            open_group = None
    return groups


def _size_bytes(write: Write) -> int:
    return sum([len(key) + (0 if value is None else len(value)) for key, value in write.records])


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
