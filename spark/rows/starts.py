"""Where the records of batches begin: a chain of length prefixes; numpy can only check a guess of it.

The guess is that a record is as long as the one before it. One strided comparison tells how far that holds, and a run
found so is exact: each of its records leads to the next. Small batches are compared many at a time. Where lengths change too often, and for all that is damaged,
the chain is followed step by step in Python, some 110 ns a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from stratalog.wire.errors import Corrupt

__all__ = ["RECORD_BYTES_MIN", "append_record_starts", "record_starts"]

Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, two empty fields and no header: one byte each."""

_CONTINUED: Final = 0x80
_VARINT_BITS_MAX: Final = 63
_STEP: Final = [1 + (byte >> 1) if byte < _CONTINUED else 2 + ((byte & 0x7F) >> 1) for byte in range(256)]
"""By the first byte of a record's length: bytes to the next record, as far as that byte alone can tell."""
_STRIDES: Final = np.array(_STEP, np.int64)
_RUN_BATCH_RECORDS_MIN: Final = 128
"""Batches that hold fewer records on average are not worth looking at one by one."""
_RUN_RECORDS_MIN: Final = 96
"""Runs of equal lengths shorter than this on average are left to Python."""
_TEST_RECORDS: Final = 256
"""So many are compared at first; four times as many after each success, so that a short run costs little."""


def record_starts(payload: bytes, bounds: Sequence[tuple[int, int]], counts: Sequence[int]) -> Positions:
    """The position of each record's length prefix; batch ``i`` has ``counts[i]`` records within ``bounds[i]``.

    Bounds ascend and do not overlap. Raises `Corrupt` for records that do not fill their batch exactly, and
    `IndexError` for records that leave ``payload``.
    """
    total = sum(counts)
    for (start, end), count in zip(bounds, counts, strict=True):
        # A count that cannot be true must not become memory.
        if count * RECORD_BYTES_MIN > end - start:
            raise Corrupt(f"a batch claims {count} records in {end - start} bytes")
    few = total < _RUN_BATCH_RECORDS_MIN * len(counts)
    found = _evenly(payload, bounds, counts) if few else _in_runs(payload, bounds, counts)
    return _step_by_step(payload, bounds, counts) if found is None else found


def _evenly(payload: bytes, bounds: Sequence[tuple[int, int]], counts: Sequence[int]) -> Positions | None:
    """The starts of small batches, many at once: of each the guess is that all of its records are equally long.

    Where records are large, following a chain costs a cache miss a record, one after the other; here they overlap.
    None where most batches are not so.
    """
    view = np.frombuffer(payload, np.uint8)
    begins, ends = np.array(bounds, np.int64).T
    number = np.array(counts, np.int64)
    first, second = view[begins], view[begins + 1]
    longer = first >= _CONTINUED
    strides = _STRIDES[first] + np.where(longer, second.astype(np.int64) << 6, 0)
    even = (begins + number * strides == ends) & ~(longer & (second >= _CONTINUED))
    if 2 * np.count_nonzero(even) < len(counts):
        return None
    behind = np.cumsum(number)
    within = np.arange(int(behind[-1])) - np.repeat(behind - number, number)
    starts: Positions = np.repeat(begins, number) + within * np.repeat(np.where(even, strides, 0), number)
    same = view[starts] == np.repeat(first, number)
    same &= (view[starts + 1] == np.repeat(second, number)) | ~np.repeat(longer, number)
    even &= np.logical_and.reduceat(same, behind - number)
    for index in np.flatnonzero(~even).tolist():
        steps = _step_by_step(payload, bounds[index : index + 1], counts[index : index + 1])
        starts[behind[index] - counts[index] : behind[index]] = steps
    return starts


def _step_by_step(payload: bytes, bounds: Sequence[tuple[int, int]], counts: Sequence[int]) -> Positions:
    starts: list[int] = []
    for (start, end), count in zip(bounds, counts, strict=True):
        if append_record_starts(payload, start, count, starts) != end:
            raise Corrupt(f"{count} records do not fill the {end - start} bytes of their batch exactly")
    return np.array(starts, np.int64)


def append_record_starts(payload: bytes, position: int, count: int, starts: list[int]) -> int:
    """Append to ``starts`` where each of ``count`` records begins (its length varint); returns where the last ends.

    Raises `IndexError` when they leave ``payload``.
    """
    append = starts.append
    step = _STEP
    for _ in range(count):
        append(position)
        first = payload[position]
        if first < _CONTINUED:
            position += step[first]
            continue
        second = payload[position + 1]
        if second < _CONTINUED:
            position += step[first] + (second << 6)
        else:
            position = _end_of_long_record(payload, position)
    return position


def _end_of_long_record(payload: bytes, position: int) -> int:
    """Where the record at ``position`` ends whose length takes three bytes or more (8 KiB and up)."""
    length = shift = 0
    while True:
        byte = payload[position]
        position += 1
        length |= (byte & 0x7F) << shift
        if byte < _CONTINUED:
            return position + (length >> 1)
        shift += 7
        if shift > _VARINT_BITS_MAX:
            raise IndexError(f"a varint at byte {position} has more than ten bytes")


def _in_runs(payload: bytes, bounds: Sequence[tuple[int, int]], counts: Sequence[int]) -> Positions | None:
    """The starts where lengths seldom change, else None."""
    view = np.frombuffer(payload, np.uint8)
    runs: list[Positions] = []
    done = 0
    for (start, end), count in zip(bounds, counts, strict=True):
        position, left, test = start, count, _TEST_RECORDS
        while left:
            first, second = payload[position], payload[position + 1]
            if len(runs) > 4 + done // _RUN_RECORDS_MIN or second >= _CONTINUED <= first:
                return None
            stride = _STEP[first] + (second << 6 if first >= _CONTINUED else 0)
            tested = min(left, test, (end - position) // stride)
            if tested < 1 or stride < RECORD_BYTES_MIN:
                return None
            stop = position + tested * stride
            same = view[position:stop:stride] == first
            if first >= _CONTINUED:
                same &= view[position + 1 : stop : stride] == second
            # Each record of the run leads to the next one, so all of them are where the chain goes.
            length = tested if same.all() else int(same.argmin())
            runs.append(np.arange(position, position + length * stride, stride, dtype=np.int64))
            position += length * stride
            left -= length
            done += length
            test = 4 * test if length == tested else _TEST_RECORDS
        if position != end:
            return None
    return np.concatenate(runs)
