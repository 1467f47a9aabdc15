"""Record bytes to Arrow columns by the compiled kernel, in one pass."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from stratalog.spark.rows.columns import Positions, headers_column, int64_column, odd_batches, varints
from stratalog.spark.rows.kernel import Kernel
from stratalog.spark.rows.schema import HEADERS, TOMBSTONE
from stratalog.spark.rows.starts import RECORD_BYTES_MIN
from stratalog.wire.batch import BatchHeader

__all__ = ["RecordColumns", "record_columns"]

_TIMES, _KEYS, _VALUES, _HEADERS = range(4)
"""How far into a record the kernel has to look."""
_FIELDS: Final = ("key", "value")


class RecordColumns(NamedTuple):
    """The columns that were asked for, and the rows that each batch has in them."""

    arrays: dict[str, pa.Array]
    rows: Positions


def record_columns(
    kernel: Kernel,
    payload: bytes,
    headers: Sequence[BatchHeader],
    bounds: Sequence[tuple[int, int]],
    window: tuple[int, int] | None,
    wanted: Collection[str],
) -> RecordColumns | None:
    """Columns among ``wanted`` that come from the bytes of records; None if the kernel refuses them, or, without ``window``, if
    offsets are odd (`odd_batches`).

    With ``window`` only of records whose offset lies in it. Raises `Corrupt` and `IndexError` for damaged headers of
    records, as `headers_column` does.
    """
    total = sum([header.record_count for header in headers])
    size_bytes = sum([end - start for start, end in bounds])
    if total * RECORD_BYTES_MIN > size_bytes:
        return None  # a count that cannot be true must not become memory
    batches = np.array(
        [
            (start, end, header.record_count, header.base_offset, header.max_timestamp, 1)
            if header.is_log_append_time
            else (start, end, header.record_count, header.base_offset, header.base_timestamp, 0)
            for header, (start, end) in zip(headers, bounds, strict=True)
        ],
        np.int64,
    )
    depth = _depth(wanted)
    fields = min(depth, _VALUES)
    rows = np.empty(len(headers), np.int64)
    offsets, times = np.empty(total, np.int64), np.empty(total, np.int64)
    keys, values = (np.empty(size_bytes, np.uint8) if name in wanted else None for name in _FIELDS)
    ends = np.empty((fields, total + 1), np.int32)
    valid = np.full((fields, (total + 7) // 8), 0xFF, np.uint8)
    tails = np.empty((2, total if depth == _HEADERS else 0), np.int32)
    found = kernel.decode(payload, batches, window, depth, rows, offsets, times, keys, values, ends, valid, tails)
    if found is None or (window is None and _odd(headers, offsets)):
        return None
    count, *nulls = found
    arrays: dict[str, pa.Array] = {}
    if "offset" in wanted:
        arrays["offset"] = int64_column(offsets[:count])
    if "timestamp" in wanted:
        arrays["timestamp"] = pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), count, [None, pa.py_buffer(times)])
    for index, content in enumerate((keys, values)):
        if content is not None:
            content.resize(int(ends[index, count]), refcheck=False)  # it had room for all bytes of the batches
            bitmap = pa.py_buffer(valid[index]) if nulls[index] else None
            buffers = [bitmap, pa.py_buffer(ends[index]), pa.py_buffer(content)]
            arrays[_FIELDS[index]] = pa.Array.from_buffers(pa.binary(), count, buffers, nulls[index])
    if TOMBSTONE in wanted:
        arrays[TOMBSTONE] = pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(~valid[1])])
    if HEADERS in wanted:
        view = np.frombuffer(payload, np.uint8)
        places, record_ends = tails[:, :count].astype(np.int64)
        counts, at = varints(view, places)
        arrays[HEADERS] = headers_column(view, pa.py_buffer(payload), at, record_ends, counts)
    return RecordColumns(arrays, rows)


def _odd(headers: Sequence[BatchHeader], offsets: Positions) -> bool:
    counts, lasts, bases = np.array(
        [(header.record_count, header.last_offset_delta, header.base_offset) for header in headers], np.int64
    ).T
    return odd_batches(offsets, counts, lasts, bases) is not None


def _depth(wanted: Collection[str]) -> int:
    if HEADERS in wanted:
        return _HEADERS
    if "value" in wanted or TOMBSTONE in wanted:
        return _VALUES
    return _KEYS if "key" in wanted else _TIMES
