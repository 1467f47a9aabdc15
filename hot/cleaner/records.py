"""The records of one batch as the cleaner sees them, and the batch that is left of it.

Kept records are copied unchanged: offsets are deltas to a base offset that a batch keeps, and so are times, unless a
delete horizon takes the base timestamp's place. Source: Kafka's ``MemoryRecords.filterTo``, KIP-534.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from operator import lt
from typing import Final

from crc32c import crc32c

from stratalog.wire.batch import BATCH_HEADER, CRC_START, HEADER_BYTES, LOG_OVERHEAD_BYTES, NO_TIMESTAMP, BatchHeader
from stratalog.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, compress, decompress
from stratalog.wire.errors import Corrupt
from stratalog.wire.record_walk import renumbered

__all__ = [
    "Span",
    "bare_batch",
    "batch_payload",
    "emptied_batch",
    "opened_batch",
    "rebuilt_batch",
    "record_places",
    "record_spans",
]

_RECORDS_MAX: Final = 1 << 22
"""Their places take some 150 bytes each. A megabyte of records of seven bytes has 150,000."""
_CODEC_MASK: Final = 0x07
_DELETE_HORIZON: Final = 0x40
_DELTA_MIN: Final = -(1 << 63)
_NEGATIVE: Final = 1
"""Set in the first byte of the zigzag varint of a negative length: that of a null key or value, -1 or another one."""


Span = tuple[int, int, int, int, bytes | None, bool]
"""A record in the uncompressed records of its batch: start, end, timestamp delta (zigzag), offset delta, key, and
whether it has a value. A plain tuple: there are millions of them."""


def batch_payload(header: BatchHeader, batch: memoryview) -> bytes:
    """The records of a batch, uncompressed. Raises `Corrupt`."""
    payload = batch[HEADER_BYTES:]
    if header.attributes & _CODEC_MASK == Codec.NONE:
        return bytes(payload)
    if header.record_count > _RECORDS_MAX:
        raise Corrupt(
            f"the batch at offset {header.base_offset} claims {header.record_count} records; the cleaner opens at most "
            f"{_RECORDS_MAX}, which it holds in memory"
        )
    try:
        return decompress(header.codec, payload, DECOMPRESSED_BYTES_MAX)
    except Corrupt as error:
        raise Corrupt(f"the batch at offset {header.base_offset}: {error}") from error


def opened_batch(
    header: BatchHeader, batch: memoryview, parse: Callable[[BatchHeader, bytes], list[Span]]
) -> tuple[bytes, list[Span]]:
    """The records of a batch, uncompressed, and each of them by ``parse``, `record_spans` or `record_places`. Raises `Corrupt`.

    Offset deltas ascend. A client may have written others, which Kafka appends as they are, too: they name no record,
    and are taken to be 0, 1, 2 ...
    """
    payload = batch_payload(header, batch)
    try:
        spans = parse(header, payload)
        deltas = [span[3] for span in spans]
        if all(map(lt, deltas, islice(deltas, 1, None))):
            return payload, spans
    except Corrupt:  # perhaps of a delta alone; else it is raised again
        pass
    payload = renumbered(header, payload)
    return payload, parse(header, payload)


def record_spans(header: BatchHeader, payload: bytes) -> list[Span]:
    """Every record of a batch. Raises `Corrupt` if they are not what the header says."""
    return _checked(_spans, header, payload)


def record_places(header: BatchHeader, payload: bytes) -> list[Span]:
    """The same without looking at keys and values: None, and True. Raises `Corrupt`."""
    return _checked(_places, header, payload)


def _checked(parse: Callable[[BatchHeader, bytes], list[Span]], header: BatchHeader, payload: bytes) -> list[Span]:
    try:
        spans = parse(header, payload)
    except IndexError as error:
        raise _damaged(header, error) from error
    end = spans[-1][1] if spans else 0
    if end != len(payload):
        raise _damaged(header, f"{len(payload) - end} bytes follow the last record")
    return spans


# The two parsers are written out: a call for each record, or a question whether keys are wanted, costs as much again.


def _spans(header: BatchHeader, payload: bytes) -> list[Span]:
    spans: list[Span] = []
    end = 0
    total, last_delta = len(payload), header.last_offset_delta
    for _ in range(header.record_count):
        start = end
        length = payload[start]
        at = start + 1
        if length > 0x7F:
            byte = payload[at]  # two bytes are the rule
            length, at = (length & 0x7F | byte << 7, at + 1) if byte < 0x80 else _varint_rest(payload, at, length)
        end = at + (length >> 1)
        timestamp = payload[at + 1]
        at += 2
        if timestamp > 0x7F:
            timestamp, at = _varint_rest(payload, at, timestamp)
        delta = payload[at]
        at += 1
        if delta > 0x7F:
            delta, at = _varint_rest(payload, at, delta)
        size = payload[at]
        at += 1
        if size > 0x7F:
            size, at = _varint_rest(payload, at, size)
        key = None
        if not size & _NEGATIVE:
            key = payload[at : at + (size >> 1)]
            at += size >> 1
        if (length | delta) & 1 or not at < end <= total or not delta >> 1 <= last_delta:
            raise IndexError(f"record {len(spans)} does not fit")
        spans.append((start, end, timestamp, delta >> 1, key, not payload[at] & _NEGATIVE))
    return spans


def _places(header: BatchHeader, payload: bytes) -> list[Span]:
    spans: list[Span] = []
    end = 0
    total, last_delta = len(payload), header.last_offset_delta
    for _ in range(header.record_count):
        start = end
        length = payload[start]
        at = start + 1
        if length > 0x7F:
            byte = payload[at]  # two bytes are the rule
            length, at = (length & 0x7F | byte << 7, at + 1) if byte < 0x80 else _varint_rest(payload, at, length)
        end = at + (length >> 1)
        timestamp = payload[at + 1]
        at += 2
        if timestamp > 0x7F:
            timestamp, at = _varint_rest(payload, at, timestamp)
        delta = payload[at]
        if delta > 0x7F:
            delta, at = _varint_rest(payload, at + 1, delta)
        if (length | delta) & 1 or not at < end <= total or not delta >> 1 <= last_delta:
            raise IndexError(f"record {len(spans)} does not fit")
        spans.append((start, end, timestamp, delta >> 1, None, True))
    return spans


def _damaged(header: BatchHeader, what: object) -> Corrupt:
    return Corrupt(f"a record of the batch at offset {header.base_offset} is damaged: {what}")


def _varint_rest(payload: bytes, at: int, first: int) -> tuple[int, int]:
    """The raw value of a varint of several bytes whose first byte was ``first``, and the position behind it."""
    byte = payload[at]
    at += 1
    value = first & 0x7F | (byte & 0x7F) << 7
    shift = 14
    while byte > 0x7F:
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise IndexError(f"a varint at byte {at} has more than ten bytes")
    return value, at


def _signed(zigzag: int) -> int:
    return (zigzag >> 1) ^ -(zigzag & 1)


def emptied_batch(header: BatchHeader) -> bytearray:
    """The batch without its records: it still says what its producer wrote last, and up to where the log went.

    The sequence of the last record is that of the first plus the offset delta, so both stay.
    """
    fields = header._replace(
        attributes=header.attributes & ~(_CODEC_MASK | _DELETE_HORIZON), base_timestamp=NO_TIMESTAMP, record_count=0
    )
    return _packed(fields, b"")


def bare_batch(header: BatchHeader, batch: memoryview) -> memoryview | bytearray:
    """The least that can be left of a batch that has to stay: its header. A marker stays as it is.

    Clients look into each control batch: kafka-python and aiokafka end a reader of committed records at one without a record.
    """
    return batch if header.is_control or not header.record_count else emptied_batch(header)


def rebuilt_batch(
    header: BatchHeader, payload: bytes, spans: Sequence[Span], delete_horizon_ms: int | None = None
) -> bytearray:
    """The batch with these of its records, at their offsets and times and under the same codec.

    With ``delete_horizon_ms`` the batch gets that horizon: attribute bit 6, and it is the base timestamp. It gets none,
    so that its tombstones stay, where a record is older than 64 bits before the horizon.
    """
    fields = header._replace(record_count=len(spans))
    if not header.is_log_append_time:
        newest = max([_signed(timestamp) for _, _, timestamp, *_ in spans])
        fields = fields._replace(max_timestamp=header.base_timestamp + newest)
    if delete_horizon_ms is None or not _has_room(header, spans, delete_horizon_ms):
        kept = b"".join([payload[start:end] for start, end, *_ in spans])
    else:
        fields = fields._replace(attributes=header.attributes | _DELETE_HORIZON, base_timestamp=delete_horizon_ms)
        shift_ms = header.base_timestamp - delete_horizon_ms
        kept = b"".join([_moved(payload, span, shift_ms) for span in spans])
    codec = header.codec
    return _packed(fields, kept if codec is Codec.NONE else compress(codec, kept))


def _has_room(header: BatchHeader, spans: Sequence[Span], delete_horizon_ms: int) -> bool:
    """Whether the time of each record can be said from the horizon."""
    oldest = min([_signed(timestamp) for _, _, timestamp, *_ in spans], default=0)
    return header.base_timestamp + oldest - delete_horizon_ms >= _DELTA_MIN


def _moved(payload: bytes, span: Span, shift_ms: int) -> bytes:
    """The record with another timestamp delta."""
    at, end, timestamp, *_ = span
    while payload[at] > 0x7F:
        at += 1
    attributes = payload[at + 1 : at + 2]
    at += 2
    while payload[at] > 0x7F:
        at += 1
    delta = _signed(timestamp) + shift_ms
    body = attributes + _varint(delta) + payload[at + 1 : end]
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _packed(fields: BatchHeader, body: bytes) -> bytearray:
    batch = bytearray(HEADER_BYTES)
    batch += body
    fields = fields._replace(batch_length=len(batch) - LOG_OVERHEAD_BYTES)
    BATCH_HEADER.pack_into(batch, 0, *fields)
    BATCH_HEADER.pack_into(batch, 0, *fields._replace(crc=crc32c(memoryview(batch)[CRC_START:])))
    return batch
