"""The answers that producers had: which records were acknowledged and when; and the records that readers found."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["ARE_LOST", "Acknowledged", "Found", "acknowledged_faults", "order_faults"]

ARE_LOST: Final = "acknowledged records are not there"
"""Each sentence about loss has these words."""


class Found(NamedTuple):
    """A record that a reader found."""

    offset: int
    key: bytes | None
    value: bytes | None


class Acknowledged:
    """All records of a topic that were acknowledged, by partition and offset."""

    def __init__(self) -> None:
        self._noting = threading.Lock()
        self.values: dict[int, dict[int, bytes]] = defaultdict(dict)
        self.unplaced: dict[int, list[bytes]] = defaultdict(list)
        """Those that were acknowledged without an offset."""
        self.count = 0
        self.longest_gap_seconds = 0.0
        """The longest time without an acknowledgement since the first one."""
        self._twice: dict[int, list[str]] = defaultdict(list)
        self._last: float | None = None

    def note(self, partition: int, offset: int | None, value: bytes) -> None:
        """A record was acknowledged just now; without an offset if its broker only knew that it had it already."""
        now = time.monotonic()
        with self._noting:
            first = value if offset is None else self.values[partition].setdefault(offset, value)
            if offset is None:
                self.unplaced[partition].append(value)
            elif first is not value:  # the first one stays: it is what the log owes
                self._twice[partition].append(f"offset {offset} was acknowledged for {first!r} and {value!r}")
            self.count += 1
            if self._last is not None:
                self.longest_gap_seconds = max(self.longest_gap_seconds, now - self._last)
            self._last = now

    def twice(self) -> Iterator[str]:
        """Offsets that were acknowledged for two records, a line for each partition."""
        for partition, found in sorted(self._twice.items()):
            yield f"partition {partition}: {len(found)} offsets were acknowledged twice; the first: {found[0]}"


def acknowledged_faults(
    told: Acknowledged, found: Mapping[int, Sequence[Found]], *, starts: Mapping[int, int] | None = None
) -> Iterator[str]:
    """Records that were acknowledged and are not at their offsets, behind the log starts."""
    yield from told.twice()
    for partition, values in sorted(told.values.items()):
        there = {one.offset: one.value for one in found.get(partition, ())}
        start = 0 if starts is None else starts.get(partition, 0)
        lost = [offset for offset, value in values.items() if offset >= start and there.get(offset) != value]
        if lost:
            first = min(lost)
            yield (
                f"partition {partition}: {len(lost)} of {len(values)} {ARE_LOST}; the first at offset "
                f"{first} is {there.get(first)!r}, not {values[first]!r}; the log has {len(there)} up to {max(there, default=-1)}"
            )
    for partition, unplaced in sorted(told.unplaced.items()):
        there_too = {one.value for one in found.get(partition, ())}
        absent = [value for value in unplaced if value not in there_too]
        if absent and not (starts or {}).get(partition, 0):  # what is below the log start was removed by right
            yield f"partition {partition}: {len(absent)} {ARE_LOST}; they had no offset, the first was {absent[0]!r}"


def order_faults(found: Mapping[int, Sequence[Found]]) -> Iterator[str]:
    """Values ``writer:number`` that come twice or out of order within a partition, and offsets that do not rise."""
    for partition, records in sorted(found.items()):
        numbers: dict[bytes, int] = {}
        before = -1
        for one in records:
            if one.offset <= before:
                yield f"partition {partition}: offset {one.offset} was read after {before}"
            before = one.offset
            writer, _, number = (one.value or b"").partition(b":")
            last = numbers.get(writer, -1)
            if int(number) <= last:
                yield f"partition {partition}: {one.value!r} at offset {one.offset} was read after number {last}"
            numbers[writer] = max(last, int(number))
