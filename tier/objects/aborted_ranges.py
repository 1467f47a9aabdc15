"""The aborted transactions of one object, in columns: found by offset, and handed over without one of them being made. Pure.

An object of small transactions may name a transaction for each 170 bytes of its data. As tuples a million of them take 200 MB,
and each answer to a reader of committed records would look at all.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import attrgetter

from msgspec import Struct

from stratalog.tier.objects.segment_blobs import AbortedTransaction

__all__ = ["AbortedRanges"]


class AbortedRanges(Struct, frozen=True):
    """Ordered by the offsets of the markers. ``earliest`` is the least first offset from each transaction on."""

    producer_ids: array[int]
    first_offsets: array[int]
    last_offsets: array[int]
    stable_offsets: array[int]
    earliest: array[int]

    @classmethod
    def of(cls, transactions: Iterable[AbortedTransaction]) -> AbortedRanges:
        """These transactions, in any order."""
        ordered = sorted(transactions, key=attrgetter("last_offset"))
        firsts = [one.first_offset for one in ordered]
        return cls(
            array("q", [one.producer_id for one in ordered]),
            array("q", firsts),
            array("q", [one.last_offset for one in ordered]),
            array("q", [one.last_stable_offset for one in ordered]),
            array("q", [*accumulate(reversed(firsts), min)][::-1]),
        )

    def __len__(self) -> int:
        return len(self.last_offsets)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(self._at, range(len(self)))

    def touching(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those with a record or their marker in ``[start_offset, end_offset)``."""
        found = []
        for index in range(bisect_left(self.last_offsets, start_offset), len(self)):
            if self.earliest[index] >= end_offset:
                break
            if self.first_offsets[index] < end_offset:
                found.append(self._at(index))
        return found

    def _at(self, index: int) -> AbortedTransaction:
        return AbortedTransaction(
            self.producer_ids[index], self.first_offsets[index], self.last_offsets[index], self.stable_offsets[index]
        )
