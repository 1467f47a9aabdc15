"""Every record of a batch, looked at without being made: a third of the time of `stratalog.wire.batch.iter_records`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from stratalog.wire.batch import BatchHeader
from stratalog.wire.errors import Corrupt
from stratalog.wire.primitives import LONG_MAX, LONG_MIN, unsigned_varint, wrapped

__all__ = ["RecordFacts", "renumbered", "walk_records"]

_VARINT_BYTES_MAX: Final = 10
_NEGATIVE: Final = 1
"""Set in the first byte of the zigzag varint of a negative length: that of a null key."""


class RecordFacts(NamedTuple):
    """The checked facts of a record. ``offset_delta`` need not be its index among the records."""

    offset_delta: int
    timestamp_ms: int
    has_key: bool


def walk_records(header: BatchHeader, payload: bytes) -> Iterator[RecordFacts]:
    """The facts of each record; every field of every record is checked on the way.

    ``payload``: the records of the batch, uncompressed. Raises `Corrupt` if they are not what the header says.
    """
    end = 0
    base_ms = header.base_timestamp
    append_ms = header.max_timestamp if header.is_log_append_time else None
    try:
        for _ in range(header.record_count):
            end, delta_ms, delta, keyless = _record(payload, end)
            timestamp_ms = base_ms + delta_ms if append_ms is None else append_ms
            if not LONG_MIN <= timestamp_ms <= LONG_MAX:
                timestamp_ms = wrapped(timestamp_ms)
            yield RecordFacts(delta, timestamp_ms, not keyless)
    except IndexError as error:
        raise _damaged(header, error) from error
    if header.record_count < 0 or end != len(payload):
        raise _damaged(header, f"{len(payload) - end} bytes follow the last of {header.record_count} records")


def renumbered(header: BatchHeader, payload: bytes) -> bytes:
    """The records of a batch with the offset deltas 0, 1, 2 ... in their order, and unchanged else.

    ``payload``: the records, uncompressed; of their fields no more is looked at than that. Raises `Corrupt` if they are
    not as many as the header says.
    """
    parts, at = [], 0
    try:
        for number in range(header.record_count):
            length, begin = _varint(payload, at)
            at = begin + (length >> 1)
            _, delta_at = _varint(payload, begin + 1)
            _, rest = _varint(payload, delta_at)
            if length & 1 or not rest <= at <= len(payload):
                raise IndexError(f"a record of zigzag length {length} at byte {begin}")
            before, delta = payload[begin:delta_at], unsigned_varint(number << 1)
            parts += [unsigned_varint((at - rest + len(before) + len(delta)) << 1), before, delta, payload[rest:at]]
    except IndexError as error:
        raise _damaged(header, error) from error
    if header.record_count < 0 or at != len(payload):
        raise _damaged(header, f"{len(payload) - at} bytes follow the last of {header.record_count} records")
    return b"".join(parts)


def _record(payload: bytes, at: int) -> tuple[int, int, int, bool]:
    """Where the record at ``at`` ends, the deltas of its time and of its offset, and whether it has no key."""
    length, at = (payload[at], at + 1) if payload[at] < 0x80 else _varint(payload, at)
    end = at + (length >> 1)
    if length & 1 or end > len(payload):
        raise IndexError(f"a record of zigzag length {length} at byte {at}")
    at += 1  # a byte of attributes that no version uses
    delta_ms, at = (payload[at], at + 1) if payload[at] < 0x80 else _varint(payload, at)
    delta, at = (payload[at], at + 1) if payload[at] < 0x80 else _varint(payload, at)
    key = payload[at]
    at = _behind_blob(payload, at, end)
    at = _behind_blob(payload, at, end)
    if payload[at]:
        at = _behind_headers(payload, at, end)
    else:
        at += 1
    if at != end:
        raise IndexError(f"a record ends at byte {at}, its length says {end}")
    return end, (delta_ms >> 1) ^ -(delta_ms & 1), (delta >> 1) ^ -(delta & 1), bool(key & _NEGATIVE)


def _behind_blob(payload: bytes, at: int, end: int) -> int:
    """The position behind a key, a value or a header's part that begins with its length. -1 stands for null."""
    length, at = (payload[at], at + 1) if payload[at] < 0x80 else _varint(payload, at)
    if not length & 1:
        at += length >> 1
        if at > end:
            raise IndexError(f"a field of {length >> 1} bytes reaches beyond its record to byte {at}")
    return at


def _behind_headers(payload: bytes, at: int, end: int) -> int:
    count, at = _varint(payload, at)
    if count & 1 or count >> 1 > end - at:
        raise IndexError(f"a zigzag count of {count} headers at byte {at}")
    for _ in range(count >> 1):
        at = _behind_blob(payload, at, end)
        at = _behind_blob(payload, at, end)
    return at


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint, and the position behind it."""
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise IndexError(f"a varint at byte {at} has more than ten bytes")


def _damaged(header: BatchHeader, what: object) -> Corrupt:
    return Corrupt(f"a record of the batch at offset {header.base_offset} is damaged: {what}")
