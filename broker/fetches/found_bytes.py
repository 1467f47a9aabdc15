"""Bytes that a fetch which waits has found, by partition: a change of one of many has it look at that one alone.

Kafka's ``DelayedFetch`` compares offsets of all partitions at each append. Here each look reads, so that a hundred appends a second
to a partition that is named beside a thousand others would be a hundred thousand reads.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

__all__ = ["FEW", "FoundBytes"]

FEW: Final = 8
"""Up to so many partitions are all looked at again: that takes no longer than to know what each had."""


class FoundBytes:
    """The sum over the partitions of a request, and what each adds to it."""

    __slots__ = ("_by_partition", "total_bytes")

    def __init__(self) -> None:
        self._by_partition: dict[Hashable, int] = {}
        self.total_bytes = 0

    def note(self, partition: Hashable, size_bytes: int) -> None:
        """``partition`` has so much now, whatever it had before."""
        before = self._by_partition.get(partition, 0)
        if size_bytes != before:
            self._by_partition[partition] = size_bytes
            self.total_bytes += size_bytes - before

    def without(self, partition: Hashable) -> int:
        """Bytes of all others."""
        return self.total_bytes - self._by_partition.get(partition, 0)
