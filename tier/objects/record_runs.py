"""How many records a batch holds and how far their times go back, by their lengths alone. Pure.

Events of one kind are often equally long, and the batches of one producer alike: where the first record's length stands
again at its end, so does the second one's, and so on. A strided slice shows the lengths of many at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stratalog.wire.errors import Corrupt

__all__ = ["RecordCounter", "measure_records"]

_LENGTH_MIN: Final = 12
"""Zigzag of 6: attributes, two deltas, lengths of key and value, number of headers, a byte each."""
_RUN_MAX: Final = 128
"""Records looked at together; more would be copied in vain where lengths change."""
_RUN_WORTH: Final = 8
_RUN_TRIES: Final = 2
"""After so many runs in a row that were not worth the look, the rest of a batch is walked record by record."""
_RUNS_KEPT_MAX: Final = 8
"""A batch of records of one kind has three or four runs: offset deltas take another byte now and then."""
_NOT_NEGATIVE: Final = bytes(range(0, 256, 2))
"""First bytes of the zigzag varints of 0 and above."""


class _Run(NamedTuple):
    """``record_count`` records in a row of ``size_bytes`` each, and what stands at the same places of all of them."""

    size_bytes: int
    record_count: int
    prefixes: tuple[bytes, ...]
    """The first byte of each record's length, and the second one if there is one."""
    deltas: bytes
    """The first byte of each record's timestamp delta."""


class RecordCounter:
    """Measures batch after batch, and looks first for the runs of equal records that the one before had."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: tuple[_Run, ...] = ()

    def measure(self, payload: memoryview) -> tuple[int, int]:
        """Result of `measure_records` over the payload."""
        count, at, known = self._follow(payload)
        if at == len(payload):
            return count, 0
        found: list[_Run] = []
        measured = _walk(bytes(payload), at, count, found)
        if any(run.record_count >= _RUN_WORTH for run in found):
            self._runs = _joined([*self._runs[:known], *found])
        return measured

    def _follow(self, payload: memoryview) -> tuple[int, int, int]:
        """``(records, their bytes, runs)`` at the front of the payload that are as those of the batch before.

        A run may be shorter than it was. That all of its lengths are as they were proves where each record begins.
        """
        end = len(payload)
        count = at = known = 0
        for size_bytes, most, prefixes, deltas in self._runs:
            stop = at + most * size_bytes
            if stop > end:
                most = (end - at) // size_bytes
                stop = at + most * size_bytes
                prefixes, deltas = tuple(prefix[:most] for prefix in prefixes), deltas[:most]
            place = at
            for prefix in prefixes:
                if payload[place:stop:size_bytes] != prefix:
                    return count, at, known
                place += 1
            times = payload[place + 1 : stop : size_bytes]
            if times != deltas and times.tobytes().translate(None, _NOT_NEGATIVE):
                return count, at, known
            count += most
            at = stop
            known += 1
        return count, at, known


def _joined(runs: list[_Run]) -> tuple[_Run, ...]:
    """The first runs, those that continue each other as one."""
    joined: list[_Run] = []
    for run in runs:
        last = joined[-1] if joined else None
        if (
            last is None
            or last.size_bytes != run.size_bytes
            or [p[:1] for p in last.prefixes] != [p[:1] for p in run.prefixes]
        ):
            joined.append(run)
            continue
        prefixes = tuple(a + b for a, b in zip(last.prefixes, run.prefixes, strict=True))
        joined[-1] = _Run(run.size_bytes, last.record_count + run.record_count, prefixes, last.deltas + run.deltas)
    return tuple(joined[:_RUNS_KEPT_MAX])


def measure_records(payload: bytes) -> tuple[int, int]:
    """``(count, smallest timestamp delta)`` of the uncompressed records of a batch; headers and values are skipped.

    The delta is at most 0. Raises `Corrupt` unless records fill the payload exactly.
    """
    return _walk(payload, 0, 0, None)


def _walk(payload: bytes, at: int, count: int, runs: list[_Run] | None) -> tuple[int, int]:
    """`measure_records` from ``at`` on, behind ``count`` records; ``runs`` gets the runs up to the first lone record."""
    lowest = 0
    end = len(payload)
    tries = _RUN_TRIES
    try:
        while at < end:
            if tries:
                run = _measure_run(payload, at)
                tries = _RUN_TRIES if run is not None and run.record_count >= _RUN_WORTH else tries - 1
                if run is not None:
                    count += run.record_count
                    at += run.record_count * run.size_bytes
                    if runs is not None:
                        runs.append(run)
                    continue
            runs = None
            byte = payload[at]
            at += 1
            if byte >= 0x80:
                byte, at = _long_varint(payload, at, byte)
            if byte & 1 or byte < _LENGTH_MIN:
                raise Corrupt(f"record {count} has a length of {(byte >> 1) ^ -(byte & 1)} bytes")
            if payload[at + 1] & 1:
                lowest = min(lowest, _negative_varint(payload, at + 1))
            at += byte >> 1
            count += 1
    except IndexError:
        at = end + 1
    if at != end:
        raise Corrupt(f"record {count} reaches beyond the {end} bytes of its batch")
    return count, lowest


def _measure_run(payload: bytes, at: int) -> _Run | None:
    """Records from ``at`` on that have one length and no time before the batch's first; None if the first is not such."""
    length = payload[at]
    prefix_bytes = 1
    if length >= 0x80:
        second = payload[at + 1]
        length = length & 0x7F | second << 7
        prefix_bytes = 2
        if second >= 0x80:
            return None
    if length & 1 or length < _LENGTH_MIN:
        return None
    size_bytes = prefix_bytes + (length >> 1)
    count = min(_RUN_MAX, (len(payload) - at) // size_bytes)
    for position in range(at, at + prefix_bytes):
        count = _equal_at_front(payload[position : at + count * size_bytes : size_bytes])
    deltas = payload[at + prefix_bytes + 1 : at + count * size_bytes : size_bytes]
    if deltas.translate(None, _NOT_NEGATIVE):
        count -= len(deltas.lstrip(_NOT_NEGATIVE))
    if not count:
        return None
    prefixes = tuple(payload[position : position + 1] * count for position in range(at, at + prefix_bytes))
    return _Run(size_bytes, count, prefixes, deltas[:count])


def _equal_at_front(values: bytes) -> int:
    """How many are like the first; that all are is what is asked first, because it is quickly told and often so."""
    first = values[:1]
    return len(values) if values == first * len(values) else len(values) - len(values.lstrip(first))


def _long_varint(payload: bytes, at: int, first: int) -> tuple[int, int]:
    value = first & 0x7F
    shift = 7
    while True:
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Corrupt(f"a varint at byte {at} has more than ten bytes")


def _negative_varint(payload: bytes, at: int) -> int:
    value = payload[at]
    if value >= 0x80:
        value, _ = _long_varint(payload, at + 1, value)
    return -(value + 1) >> 1
