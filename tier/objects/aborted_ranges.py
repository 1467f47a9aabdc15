"""The aborted transactions of one object, in columns: found by offset, and handed over without one of them being made. Pure.

An object of small transactions may name a transaction for each 170 bytes of its data. As tuples a million of them take 200 MB,
and each answer to a reader of committed records would look at all.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

from msgspec import Struct

from stratalog.tier.objects.segment_blobs import AbortedTransaction

__all__ = ["AbortedRanges"]

_FAN: Final = 32
"""So many numbers of a level of `AbortedRanges.first_offsets` have one in the next."""


class AbortedRanges(Struct, frozen=True):
    """Ordered by the offsets of the markers.

    ``first_offsets`` has levels: that of each transaction, the least of each 32 of them, and so on. One transaction that is open
    for long has a later marker than very many that an answer need not look at.
    """

    producer_ids: array[int]
    first_offsets: tuple[array[int], ...]
    last_offsets: array[int]
    stable_offsets: array[int]

    @classmethod
    def of(cls, transactions: Iterable[AbortedTransaction]) -> AbortedRanges:
        """These transactions, in any order."""
        ordered = sorted(transactions, key=attrgetter("last_offset"))
        levels = [array("q", [one.first_offset for one in ordered])]
        while len(row := levels[-1]) > _FAN:
            levels.append(array("q", [min(row[at : at + _FAN]) for at in range(0, len(row), _FAN)]))
        return cls(
            array("q", [one.producer_id for one in ordered]),
            tuple(levels),
            array("q", [one.last_offset for one in ordered]),
            array("q", [one.last_stable_offset for one in ordered]),
        )

    def __len__(self) -> int:
        return len(self.last_offsets)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(self._at, range(len(self)))

    def touching(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those with a record or their marker in ``[start_offset, end_offset)``."""
        first, level = bisect_left(self.last_offsets, start_offset), len(self.first_offsets) - 1
        return list(map(self._at, self._beginning_before(end_offset, first, level, 0, _FAN)))

    def _beginning_before(self, end_offset: int, first: int, level: int, low: int, high: int) -> Iterator[int]:
        """The transactions from ``first`` on that begin before ``end_offset``, under ``[low, high)`` of a level."""
        row = self.first_offsets[level]
        for index in range(max(low, first // _FAN**level), min(high, len(row))):
            if row[index] < end_offset:
                if level:
                    yield from self._beginning_before(end_offset, first, level - 1, index * _FAN, (index + 1) * _FAN)
                else:
                    yield index

    def _at(self, index: int) -> AbortedTransaction:
        return AbortedTransaction(
            self.producer_ids[index], self.first_offsets[0][index], self.last_offsets[index], self.stable_offsets[index]
        )
