"""Record batches, format v2: the unit of append, of CRC and of compression.

The 61-byte header is big-endian; base offset and partition leader epoch lie outside the CRC, so a leader writes
them in place. Every varint of a record is zigzag. Source: Apache Kafka's ``DefaultRecordBatch``,
``DefaultRecord``, KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from stratalog.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, compress, decompress
from stratalog.wire.errors import Corrupt
from stratalog.wire.primitives import LONG_MAX, LONG_MIN, wrapped

__all__ = [
    "BATCH_HEADER",
    "CONTROL_ATTRIBUTE",
    "CRC_START",
    "HEADER_BYTES",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Header",
    "Record",
    "assign_offset",
    "build_batch",
    "build_control_batch",
    "check_batch",
    "check_fields",
    "iter_headers",
    "iter_records",
    "read_header",
    "rewrite_timestamp",
]

BATCH_HEADER: Final = Struct(">qiibIhiqqqhii")
"""base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp, max timestamp,
producer id, producer epoch, base sequence, record count."""

HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and length: what the length field does not count."""
CRC_START: Final = 21
MAGIC: Final = 2
CONTROL_ATTRIBUTE: Final = 0x20
"""The bit of a batch whose records are markers."""
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_DELETE_HORIZON: Final = 0x40

_OFFSET: Final = Struct(">q")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_CODECS: Final = tuple(Codec)
"""By their number: the enumeration itself takes four times as long to look one up."""
_MIN_RECORD_BYTES: Final = 7

Buffer = bytes | bytearray | memoryview


class Header(NamedTuple):
    """One header of a record.

    No client has to write its name in UTF-8, and brokers take any: bytes that are none are in ``key`` by "surrogateescape".
    """

    key: str
    value: bytes | None

    @property
    def key_bytes(self) -> bytes:
        """The name as it stands in the record."""
        return self.key.encode("utf-8", "surrogateescape")


class Record(NamedTuple):
    """One record. ``offset`` and ``timestamp_ms`` are absolute; the time has 64 bits, and wraps as Java's does."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class BatchHeader(NamedTuple):
    """The header of one batch, as it stands in the log."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record the producer put in."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset behind the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """Raises `Corrupt` for a codec that is not defined."""
        number = self.attributes & _CODEC_MASK
        if number >= len(_CODECS):
            raise Corrupt(f"the batch at offset {self.base_offset} names an unknown codec: {number}")
        return _CODECS[number]

    @property
    def is_log_append_time(self) -> bool:
        """Whether ``max_timestamp`` is the time of every record (LogAppendTime)."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it holds a marker instead of records."""
        return bool(self.attributes & CONTROL_ATTRIBUTE)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the cleaner replaced the base timestamp by a delete horizon."""
        return bool(self.attributes & _DELETE_HORIZON)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at ``position``; nothing is checked. Raises `Corrupt` if 61 bytes are not there."""
    if position < 0 or position + HEADER_BYTES > len(buffer):
        raise Corrupt(f"{len(buffer) - position} bytes at position {position} are less than a batch header")
    return BatchHeader._make(BATCH_HEADER.unpack_from(buffer, position))


def check_batch(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read and verify the batch at ``position``: bounds, magic and CRC-32C. Raises `Corrupt`."""
    return BatchHeader._make(check_fields(buffer, position))


def check_fields(buffer: Buffer, position: int = 0) -> tuple[int, ...]:
    """`check_batch` for callers that look at very many batches: the fields
    of `BATCH_HEADER`, in its order. Raises `Corrupt`.
    """
    size_bytes = len(buffer)
    if position < 0 or position + HEADER_BYTES > size_bytes:
        raise Corrupt(f"{size_bytes - position} bytes at position {position} are less than a batch header")
    fields = BATCH_HEADER.unpack_from(buffer, position)
    length = fields[1]
    end = position + LOG_OVERHEAD_BYTES + length
    if length < HEADER_BYTES - LOG_OVERHEAD_BYTES or end > size_bytes:
        raise Corrupt(
            f"the batch at position {position} (offset {fields[0]}) claims {length} bytes, "
            f"{size_bytes - position} are there"
        )
    if fields[3] != MAGIC:
        raise Corrupt(f"the batch at position {position} has magic {fields[3]}, only {MAGIC} is supported")
    crc = crc32c(memoryview(buffer)[position + CRC_START : end])
    if crc != fields[4]:
        raise Corrupt(
            f"the batch at position {position} (offset {fields[0]}) has CRC {crc:#010x}, "
            f"its header says {fields[4]:#010x}"
        )
    return fields


def iter_headers(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """``(position, header)`` of every whole batch in ``[position, end)``; a torn last batch ends the walk.

    Raises `Corrupt` for a length that no batch can have. CRCs are not checked.
    """
    stop = len(buffer) if end is None else end
    while position + HEADER_BYTES <= stop:
        header = BatchHeader._make(BATCH_HEADER.unpack_from(buffer, position))
        if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            raise Corrupt(f"the batch at position {position} claims {header.batch_length} bytes")
        after = position + LOG_OVERHEAD_BYTES + header.batch_length
        if after > stop:
            return
        yield position, header
        position = after


assign_offset = Struct(">qii").pack_into
"""``assign_offset(buffer, position, base_offset, batch_length, leader_epoch)``: the two fields a leader owns.

They lie outside the CRC. The length between them is written as it was: one call instead of two, once per batch.
"""


def rewrite_timestamp(buffer: bytearray | memoryview, position: int, log_append_time_ms: int) -> None:
    """Turn the batch into one of LogAppendTime: attribute bit 3, max timestamp, and the CRC that covers them."""
    header = read_header(buffer, position)
    _ATTRIBUTES.pack_into(buffer, position + 21, header.attributes | _LOG_APPEND_TIME)
    _OFFSET.pack_into(buffer, position + 35, log_append_time_ms)
    crc = crc32c(memoryview(buffer)[position + CRC_START : position + header.size_bytes])
    _CRC.pack_into(buffer, position + 17, crc)


def iter_records(buffer: Buffer, position: int = 0) -> Iterator[Record]:
    """The records of the batch at ``position``, decompressed within bounds; also of control batches.

    Raises `Corrupt` for a batch whose records are not what its header says. The CRC is the caller's business.
    """
    header = read_header(buffer, position)
    payload: Buffer = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    if header.codec is not Codec.NONE:
        try:
            payload = decompress(header.codec, payload, DECOMPRESSED_BYTES_MAX)
        except Corrupt as error:
            # Keep the kind of the error: a reader that goes on behind a batch that is too large tells it from a damaged
            # one.
            raise type(error)(f"the batch at offset {header.base_offset}: {error}") from error
    if header.record_count < 0 or header.record_count * _MIN_RECORD_BYTES > len(payload):
        raise Corrupt(
            f"the batch at offset {header.base_offset} claims {header.record_count} records in {len(payload)} bytes"
        )
    try:
        yield from _records(bytes(payload), header)
    except IndexError as error:
        raise Corrupt(f"a record of the batch at offset {header.base_offset} is damaged: {error}") from error


def _records(payload: bytes, header: BatchHeader) -> Iterator[Record]:
    at = 0
    for _ in range(header.record_count):
        length, at = _varint(payload, at)
        end = at + length
        if length < 0 or end > len(payload):
            raise IndexError(f"length {length} at byte {at}")
        delta_ms, at = _varint(payload, at + 1)
        delta, at = _varint(payload, at)
        key, at = _blob(payload, at, end)
        value, at = _blob(payload, at, end)
        count, at = _varint(payload, at)
        if count < 0 or count > end - at:
            raise IndexError(f"{count} headers at byte {at}")
        headers = []
        for _ in range(count):
            name, at = _blob(payload, at, end)
            content, at = _blob(payload, at, end)
            headers.append(Header((name or b"").decode("utf-8", "surrogateescape"), content))
        if at != end:
            raise IndexError(f"a record ends at byte {at}, its length says {end}")
        timestamp_ms = header.max_timestamp if header.is_log_append_time else header.base_timestamp + delta_ms
        if not LONG_MIN <= timestamp_ms <= LONG_MAX:
            timestamp_ms = wrapped(timestamp_ms)
        yield Record(header.base_offset + delta, timestamp_ms, key, value, tuple(headers))
    if at != len(payload):
        raise IndexError(f"{len(payload) - at} bytes follow the last record")


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise IndexError(f"a varint at byte {at} has more than ten bytes")


def _blob(payload: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = _varint(payload, at)
    if length < 0:
        return None, at
    if at + length > end:
        raise IndexError(f"a field of {length} bytes at byte {at} reaches beyond its record")
    return payload[at : at + length], at + length


def _put_varint(out: bytearray, value: int) -> None:
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def _put_blob(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # zigzag of -1
        return
    _put_varint(out, len(value))
    out += value


def _put_record(out: bytearray, record: Record, base_offset: int, base_timestamp: int) -> None:
    body = bytearray(1)
    _put_varint(body, wrapped(record.timestamp_ms - base_timestamp))
    _put_varint(body, record.offset - base_offset)
    _put_blob(body, record.key)
    _put_blob(body, record.value)
    _put_varint(body, len(record.headers))
    for header in record.headers:
        _put_blob(body, header.key_bytes)
        _put_blob(body, header.value)
    _put_varint(out, len(body))
    out += body


def build_batch(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytearray:
    """One batch of ``records``, whose offsets must ascend; the first one's is the base offset.

    With ``log_append_time_ms`` the batch carries that time for all of its records.
    """
    if not records:
        raise ValueError("a batch holds at least one record")
    base_offset, base_timestamp = records[0].offset, records[0].timestamp_ms
    payload = bytearray()
    for record in records:
        _put_record(payload, record, base_offset, base_timestamp)
    body: Buffer = payload if codec is Codec.NONE else compress(codec, payload)
    attributes = int(codec) | (_TRANSACTIONAL if transactional else 0) | (CONTROL_ATTRIBUTE if control else 0)
    max_timestamp = max(record.timestamp_ms for record in records)
    if log_append_time_ms is not None:
        attributes |= _LOG_APPEND_TIME
        max_timestamp = log_append_time_ms
    batch = bytearray(HEADER_BYTES)
    batch += body
    last_offset_delta = records[-1].offset - base_offset
    BATCH_HEADER.pack_into(
        batch, 0, base_offset, len(batch) - LOG_OVERHEAD_BYTES, leader_epoch, MAGIC, 0, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, len(records),
    )  # fmt: skip
    _CRC.pack_into(batch, 17, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def build_control_batch(
    kind: int,
    value: bytes,
    *,
    offset: int,
    timestamp_ms: int,
    leader_epoch: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytearray:
    """A batch with one control record of type ``kind``: 0 abort, 1 commit, 2 leader change, 3 and 4 snapshot ends.

    Source: Kafka's ``ControlRecordType`` and ``EndTransactionMarker``; the key is version 0 and the type.
    """
    key = Struct(">hh").pack(0, kind)
    return build_batch(
        [Record(offset, timestamp_ms, key, value)],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )
