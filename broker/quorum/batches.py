"""Batches of the metadata log, between bytes and the values of `stratalog.metadata.raft`.

A batch holds records of the controller or control records, never both. All are uncompressed, in the format of Kafka's
``BatchAccumulator``; the records of a batch have offsets without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from stratalog.broker.quorum.control_records import decode_control_record, stored_record
from stratalog.metadata.raft.messages import Batch, ControlRecord
from stratalog.wire.batch import (
    CONTROL_ATTRIBUTE,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    Buffer,
    Record,
    build_batch,
    check_fields,
    iter_records,
    read_header,
)
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt
from stratalog.wire.records import control

__all__ = ["control_batch", "data_batch", "parse_batches"]

_LENGTH: Final = Struct(">i")


def parse_batches(records: Buffer, where: str = "a fetch of the metadata log") -> tuple[Batch, ...]:
    """The whole batches in ``records``, with `Batch.data` the bytes of each; a batch that is cut off at the end is left out.

    `Batch.control` has the control records, one for each offset. The records of other batches are not looked at.
    ``where`` names the bytes in messages. Raises `Corrupt` for a batch that fails its CRC, for offsets with gaps, and
    for a control record that is not known.
    """
    view = memoryview(records)
    found = []
    position, size = 0, len(view)
    try:
        while position + HEADER_BYTES <= size:
            # A log of no-op records has 15,000 batches in a MiB, so the fields stay a tuple here.
            after = position + LOG_OVERHEAD_BYTES + _LENGTH.unpack_from(view, position + 8)[0]
            if after > size:
                break
            base, _, epoch, _, _, attributes, last_delta, *_, count = check_fields(view, position)
            if count < 1 or count != last_delta + 1 or base < 0 or epoch < 0:
                raise Corrupt(
                    f"the batch at offset {base} of epoch {epoch} has {count} records up to offset {base + last_delta}"
                )
            data = view[position:after]
            content = _control_records(data) if attributes & CONTROL_ATTRIBUTE else ()
            found.append(Batch(base, base + count, epoch, content, data))
            position = after
    except Corrupt as error:
        raise Corrupt(f"{where}, at byte {position}: {error}") from error
    return tuple(found)


def _control_records(data: memoryview) -> tuple[ControlRecord, ...]:
    header = read_header(data)
    if header.codec is not Codec.NONE:
        raise Corrupt(f"the control batch at offset {header.base_offset} is compressed")
    found = []
    for offset, record in enumerate(iter_records(data), header.base_offset):
        if record.offset != offset:
            raise Corrupt(f"a control record has offset {record.offset} in place of {offset}")
        found.append(decode_control_record(record.key or b"", record.value or b""))
    return tuple(found)


def control_batch(batch: Batch, *, timestamp_ms: int) -> bytearray:
    """The bytes of ``batch.control``, at its offsets and in its epoch."""
    rows = []
    for offset, record in enumerate(batch.control, batch.base_offset):
        kind, stored = stored_record(record)
        rows.append(Record(offset, timestamp_ms, control.encode_key(kind), control.encode_record(stored)))
    return build_batch(rows, leader_epoch=batch.epoch, control=True)


def data_batch(values: Sequence[bytes], *, base_offset: int, epoch: int, timestamp_ms: int) -> bytearray:
    """The bytes of a batch of the controller's records, which are encoded already; at least one."""
    rows = [Record(offset, timestamp_ms, None, value) for offset, value in enumerate(values, base_offset)]
    return build_batch(rows, leader_epoch=epoch)
