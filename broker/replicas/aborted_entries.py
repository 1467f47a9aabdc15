"""The aborted transactions that one answer to a fetch names.

A consumer that reads committed records walks through the entries by first offset: an entry begins to hide its producer's
records, and the producer's next abort marker ends that. librdkafka counts entries, so one too many hides committed
records up to the producer's next abort. Apache Kafka therefore collects the entries of archived segments in a set
(``RemoteLogManager.addAbortedTransactions``, KIP-405), for every segment that a transaction overlaps has an entry of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

__all__ = ["AbortedRange", "aborted_entries"]


class AbortedRange(Protocol):
    """An aborted transaction as a log's index or an archived object has it. Both offsets are inclusive."""

    @property
    def producer_id(self) -> int:
        """The producer whose records are void."""
        ...

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        ...

    @property
    def last_offset(self) -> int:
        """The offset of its marker."""
        ...


def aborted_entries(found: Iterable[AbortedRange], start_offset: int, end_offset: int) -> list[tuple[int, int]]:
    """(producer id, first offset) of each transaction that touches ``[start_offset, end_offset)``, by first offset.

    ``found`` may hold a transaction many times, in any order, and transactions elsewhere.
    """
    touching = {
        (one.first_offset, one.producer_id)
        for one in found
        if one.first_offset < end_offset and one.last_offset >= start_offset
    }
    return [(producer_id, first_offset) for first_offset, producer_id in sorted(touching)]
