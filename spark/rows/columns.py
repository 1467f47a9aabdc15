"""Array code that turns the bytes of records into Arrow columns, without a Python object per record.

Every varint is decoded as an array, and keys and values are cut out of the payload by a take over interleaved
offsets, which copies each byte once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stratalog.spark.rows.schema import arrow_schema
from stratalog.wire.errors import Corrupt

__all__ = [
    "TIME_MS_MAX",
    "Positions",
    "constant_int32",
    "constant_text",
    "headers_column",
    "int32_column",
    "int64_column",
    "odd_batches",
    "slices",
    "timestamp_column",
    "varints",
]

Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_CONTINUED: Final = 0x80
_VARINT_BITS_MAX: Final = 63
_UNSIGNED_MAX: Final = (1 << 64) - 1
_RECORDS_MIN: Final = 32
"""Array code costs as much for one record as for so many, and one may have a hundred million headers."""
_KEPT_ROWS: Final = 1 << 15
TIME_MS_MAX: Final = ((1 << 63) - 1) // 1000
_ZIGZAG: Final = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(_CONTINUED)], np.int64)
"""The numbers of varints of one byte."""
_HEADER_TYPE: Final = arrow_schema(["headers"]).field(0).type


def varints(payload: Bytes, positions: Positions) -> tuple[Positions, Positions]:
    """The zigzag varint at each position, and the position behind each. Raises `IndexError` outside ``payload``.

    Varints of one and two bytes cost a few steps over whole arrays; only longer ones are picked out.
    """
    first = payload[positions]
    longer = first >= _CONTINUED
    if not longer.any():
        return _ZIGZAG[first], positions + 1
    if longer.all():
        second = payload[positions + 1]
    else:
        # The last byte of the payload stands in where a varint of one byte is all that is left.
        second = payload.take(positions + 1, mode="clip")
        if longer[positions + 1 >= len(payload)].any():
            raise IndexError("a varint reaches beyond the payload")
        second *= longer
    low = first & np.uint8(_CONTINUED - 1)
    raw = low + (second & np.uint8(_CONTINUED - 1)).astype(np.uint16) * np.uint16(_CONTINUED)
    values = _unzigzag(raw.astype(np.int64))
    after = positions + 1 + longer
    if (second >= _CONTINUED).any():
        more = np.flatnonzero(second >= _CONTINUED)
        values[more], after[more] = _long_varints(payload, positions[more])
    return values, after


def _long_varints(payload: Bytes, positions: Positions) -> tuple[Positions, Positions]:
    """`varints` of any length."""
    after = positions.copy()
    values = np.zeros(len(positions), np.int64)
    more = np.arange(len(positions))
    shift = 0
    while more.size:
        if shift > _VARINT_BITS_MAX:
            raise IndexError("a varint has more than ten bytes")
        byte = payload[after[more]].astype(np.int64)
        values[more] |= (byte & (_CONTINUED - 1)) << shift
        after[more] += 1
        more = more[byte >= _CONTINUED]
        shift += 7
    return _unzigzag(values), after


def _unzigzag(values: Positions) -> Positions:
    # The shift must be a logical one: the tenth byte of a varint reaches the sign bit.
    return (values.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(values & 1)


def slices(payload: pa.Buffer, positions: Positions, lengths: Positions) -> pa.Array:
    """A binary column of ``payload[position : position + length]``, null where the length is negative.

    Positions must ascend and slices must not overlap, as fields of records do not; ``payload`` is below 2 GiB.
    Raises `IndexError` for a slice outside ``payload``.
    """
    count = len(positions)
    if count == 0:
        return pa.array([], pa.binary())
    null = lengths < 0
    has_null = bool(null.any())
    if has_null and null.all():
        return pa.nulls(count, pa.binary())
    ends = positions + (np.where(null, 0, lengths) if has_null else lengths)
    if int(positions[0]) < 0 or int(ends[-1]) > payload.size:
        raise IndexError(f"a field ends at byte {int(ends[-1])} of {payload.size}")
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = positions
    offsets[1::2] = ends
    interleaved = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), payload])
    wanted = pa.array(np.arange(0, 2 * count - 1, 2, dtype=np.int32), mask=null if has_null else None)
    return interleaved.take(wanted)


def odd_batches(
    offsets: Positions, counts: Positions, lasts: Positions, bases: Positions | int = 0
) -> npt.NDArray[np.bool_] | None:
    """In which batches the offsets of records do not ascend from their ``bases`` on up to their ``bases + lasts``.

    ``offsets`` are those of all records, ``counts`` those that each batch has, at least one. None if all do ascend.
    """
    ends = np.cumsum(counts)
    begins = ends - counts
    odd: npt.NDArray[np.bool_] = (offsets[begins] < bases) | (offsets[ends - 1] > bases + lasts)
    falls = offsets[1:] <= offsets[:-1]
    falls[begins[1:] - 1] = False  # from one batch to the next
    odd[np.searchsorted(ends, np.flatnonzero(falls), side="right")] = True
    return odd if odd.any() else None


def int64_column(values: Positions) -> pa.Array:
    """``values`` as a bigint column, without a copy."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def int32_column(values: npt.NDArray[np.int32]) -> pa.Array:
    """``values`` as an int column, without a copy."""
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def timestamp_column(times_ms: Positions) -> pa.Array:
    """Times in ms since 1970 as Spark's timestamps (microseconds, UTC); those beyond what these hold are the last they do."""
    if len(times_ms) and (int(times_ms.max()) > TIME_MS_MAX or int(times_ms.min()) < -TIME_MS_MAX):
        times_ms = np.clip(times_ms, -TIME_MS_MAX, TIME_MS_MAX)
    micros = pa.py_buffer(times_ms * 1000)
    return pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), len(times_ms), [None, micros])


def constant_int32(value: int, count: int) -> pa.Array:
    """An int column of one value."""
    return _kept_int32(value).slice(0, count) if count <= _KEPT_ROWS else _int32(value, count)


def constant_text(value: str, count: int) -> pa.Array:
    """A string column of one value."""
    return _kept_text(value).slice(0, count) if count <= _KEPT_ROWS else _text_of(value, count)


def _int32(value: int, count: int) -> pa.Array:
    return int32_column(np.full(count, value, np.int32))


def _text_of(value: str, count: int) -> pa.Array:
    text = value.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text * count))


@lru_cache(maxsize=16)
def _kept_int32(value: int) -> pa.Array:
    """As many as a batch usually has; columns are slices of them, so they must not be changed."""
    return _int32(value, _KEPT_ROWS)


@lru_cache(maxsize=8)
def _kept_text(value: str) -> pa.Array:
    return _text_of(value, _KEPT_ROWS)


def headers_column(
    payload: Bytes, buffer: pa.Buffer, positions: Positions, ends: Positions, counts: Positions
) -> pa.Array:
    """The headers of each record, which begin at ``positions`` and end at ``ends``. No header is null, as in Spark.

    Works header by header over all records at once, as long as there are many. Raises `Corrupt` for headers that do not fill
    their record.
    """
    if (counts < 0).any() or (counts > ends - positions).any():
        raise Corrupt("a record claims a number of headers that it has no bytes for")
    fields = _header_fields(payload, positions, ends, counts)
    keys = _text(slices(buffer, fields[0], fields[1]))
    values = slices(buffer, fields[2], fields[3])
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(_HEADER_TYPE.value_type))
    offsets = np.zeros(len(counts) + 1, np.int32)
    offsets[1:] = np.cumsum(counts)
    present = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    return pa.Array.from_buffers(_HEADER_TYPE, len(counts), [present, pa.py_buffer(offsets)], children=[pairs])


def _header_fields(payload: Bytes, positions: Positions, ends: Positions, counts: Positions) -> list[Positions]:
    """For every header, in record order: key position, key length, value position, value length."""
    slots = np.cumsum(counts) - counts
    fields = [np.zeros(int(counts.sum()), np.int64) for _ in range(4)]
    at = positions.copy()
    left = np.flatnonzero(counts)
    turn = 0
    while left.size >= _RECORDS_MIN:
        bound = ends[left]
        key_lengths, keys = varints(payload, at[left])
        if (key_lengths < 0).any() or (key_lengths > bound - keys).any():
            raise Corrupt("a header's key reaches beyond its record")
        value_lengths, values = varints(payload, keys + key_lengths)
        if (value_lengths > bound - values).any():
            raise Corrupt("a header's value reaches beyond its record")
        slot = slots[left] + turn
        for field, found in zip(fields, (keys, key_lengths, values, value_lengths), strict=True):
            field[slot] = found
        at[left] = values + np.maximum(value_lengths, 0)
        turn += 1
        left = left[counts[left] > turn]
    for record in left.tolist():
        at[record] = _walk_headers(
            payload,
            int(at[record]),
            int(ends[record]),
            int(counts[record]) - turn,
            [field[slots[record] + turn :] for field in fields],
        )
    if (at != ends).any():
        raise Corrupt("a record is longer than its headers")
    return fields


def _walk_headers(payload: Bytes, at: int, end: int, count: int, fields: list[Positions]) -> int:
    """`_header_fields` of the next ``count`` headers of one record, into the beginning of ``fields``; where they end."""
    data = payload.data
    keys, key_lengths, values, value_lengths = [field.data for field in fields]
    for number in range(count):
        length, at = _varint(data, at)
        if not 0 <= length <= end - at:
            raise Corrupt("a header's key reaches beyond its record")
        keys[number], key_lengths[number] = at, length
        length, at = _varint(data, at + length)
        if length > end - at:
            raise Corrupt("a header's value reaches beyond its record")
        values[number], value_lengths[number] = at, length
        at += max(length, 0)
    return at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """One of `varints`."""
    raw = 0
    for shift in range(0, _VARINT_BITS_MAX + 1, 7):
        byte = data[at]
        at += 1
        raw |= (byte & (_CONTINUED - 1)) << shift
        if byte < _CONTINUED:
            raw &= _UNSIGNED_MAX
            return (raw >> 1) ^ -(raw & 1), at
    raise IndexError("a varint has more than ten bytes")


def _text(column: pa.Array) -> pa.Array:
    """``column`` as strings; bytes that are no UTF-8 become U+FFFD, as in the Java client."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in column.to_pylist()], pa.string())
