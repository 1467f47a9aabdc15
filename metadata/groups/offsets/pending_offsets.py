"""Offsets committed inside of transactions that have not ended.

An offset becomes visible when its transaction commits, unless another commit of the partition came after it: the later
record in the log wins, whichever way it came there (KAFKA-17507 made Kafka do so). Until its end a
transaction makes the partition's offset unstable, also when what it brought has been overtaken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["PendingOffset", "PendingOffsets"]

Place = tuple[str, str, int]
"""Group, topic and partition."""


class PendingOffset(NamedTuple):
    """An offset that a transaction has brought. ``value`` is the record's, None when a later commit overtook it."""

    sequence: int
    value: bytes | None


class PendingOffsets:
    """The offsets that open transactions have brought, by producer id and by group."""

    __slots__ = ("_by_producer", "_open", "_sequence")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Place, PendingOffset]] = {}
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}
        self._sequence = 0

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, producer_id: int, place: Place, value: bytes) -> None:
        """A transaction commits an offset; what it brought there before is replaced."""
        group_id, topic, partition = place
        self._sequence += 1
        self._by_producer.setdefault(producer_id, {})[place] = PendingOffset(self._sequence, value)
        self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)

    def overtake(self, place: Place, before: int | None = None) -> None:
        """An offset became visible that stands in the log behind everything pending, or behind that ``before``."""
        group_id, topic, partition = place
        for producer_id in self._open.get(group_id, {}).get((topic, partition), ()):
            pending = self._by_producer[producer_id]
            sequence = pending[place].sequence
            if before is None or sequence < before:
                pending[place] = PendingOffset(sequence, None)

    def forget(self, place: Place) -> None:
        """The offset is deleted: nothing of it will become visible."""
        group_id, topic, partition = place
        places = self._open.get(group_id)
        if places is None:
            return
        for producer_id in places.pop((topic, partition), ()):
            pending = self._by_producer[producer_id]
            del pending[place]
            if not pending:
                del self._by_producer[producer_id]
        if not places:
            del self._open[group_id]

    def end(self, producer_id: int) -> dict[Place, PendingOffset]:
        """A producer's transaction has ended: what it had brought, in the order of the log."""
        ended = self._by_producer.pop(producer_id, {})
        for group_id, topic, partition in ended:
            places = self._open[group_id]
            producers = places[topic, partition]
            producers.discard(producer_id)
            if not producers:
                del places[topic, partition]
                if not places:
                    del self._open[group_id]
        return ended

    def has(self, group_id: str) -> bool:
        """Whether an open transaction has brought offsets of the group."""
        return group_id in self._open

    def unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has brought an offset of this partition."""
        return (topic, partition) in self._open.get(group_id, ())

    def brings(self, place: Place) -> bool:
        """Whether an offset may yet become visible there."""
        group_id, topic, partition = place
        producers = self._open.get(group_id, {}).get((topic, partition), ())
        return any(self._by_producer[producer_id][place].value is not None for producer_id in producers)

    def partitions(self, group_id: str) -> list[tuple[str, int]]:
        """The partitions of the group that have offsets from open transactions."""
        return list(self._open.get(group_id, ()))

    def items(self) -> Iterator[tuple[Place, bytes]]:
        """Everything that may yet become visible."""
        for pending in self._by_producer.values():
            for place, one in pending.items():
                if one.value is not None:
                    yield place, one.value
