"""Compares an object's indexes with its batches, one by one as they are read. Pure; memory is that of the indexes."""

from __future__ import annotations

from stratalog.tier.objects.segment_blobs import OFFSET_ENTRY, TIME_ENTRY

__all__ = ["IndexCheck"]


class IndexCheck:
    """Feed it every batch in order; the faults then say which index is wrong, at most one for each."""

    def __init__(self, base: int, end: int, offset_index: bytes, time_index: bytes) -> None:
        self._base = base
        self._offsets = memoryview(offset_index)
        self._at = 0
        self._fault = ""
        if len(offset_index) % OFFSET_ENTRY.size:
            self._fault = f"the offset index has {len(offset_index)} bytes, which is no number of entries"
        self._times, self._time_fault = time_index, _time_fault(time_index, end - base)
        self._due = self._next()

    def _next(self) -> tuple[int, int] | None:
        if self._fault or self._at == len(self._offsets):
            return None
        relative, position = OFFSET_ENTRY.unpack_from(self._offsets, self._at)
        self._at += OFFSET_ENTRY.size
        return relative + self._base, position

    def add(self, position: int, last_offset: int) -> None:
        """A batch lies at ``position`` and ends with ``last_offset``."""
        if self._due is None or self._due[1] > position:
            return
        if self._due != (last_offset, position):
            offset, at = self._due
            self._fault = f"the offset index says that the batch of offset {offset} lies at position {at}"
        self._due = self._next()

    def finish(self, max_timestamp_ms: int) -> list[str]:
        """The faults, once all batches have been given; ``max_timestamp_ms`` is theirs."""
        if self._due is not None and not self._fault:
            self._fault = f"the offset index goes on at position {self._due[1]}, where no batch is"
        if not self._time_fault and self._times:
            last_ms, _ = TIME_ENTRY.unpack_from(self._times, len(self._times) - TIME_ENTRY.size)
            if last_ms != max_timestamp_ms:
                self._time_fault = f"the time index ends at {last_ms} ms, the batches at {max_timestamp_ms} ms"
        return [fault for fault in (self._fault, self._time_fault) if fault]


def _time_fault(time_index: bytes, length: int) -> str:
    """Entries must rise in both columns and stay within the range of ``length`` offsets."""
    if len(time_index) % TIME_ENTRY.size:
        return f"the time index has {len(time_index)} bytes, which is no number of entries"
    before_ms, before = -1, -1
    for timestamp_ms, relative in TIME_ENTRY.iter_unpack(time_index):
        if timestamp_ms <= before_ms or not before <= relative < length:
            return f"the time index goes from {before_ms} ms at {before} to {timestamp_ms} ms at {relative}"
        before_ms, before = timestamp_ms, relative
    return ""
