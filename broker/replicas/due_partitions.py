"""Partitions that are led here and not open yet, in the order in which they are opened.

A broker may be given a hundred thousand partitions at once, and each takes a millisecond to open. Those that a client has
asked for come first, and those of coordinators, for which all groups wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stratalog.metadata.image.topic_names import is_internal
from stratalog.wire.topic import Uuid

__all__ = ["DuePartition", "DuePartitions"]


class DuePartition(NamedTuple):
    """A partition by the id of its topic."""

    topic_id: Uuid
    number: int


class DuePartitions:
    """A queue in which each partition stands once. Every call takes the same time, however many wait."""

    __slots__ = ("_asked", "_count", "_ids", "_topics")

    def __init__(self) -> None:
        self._topics: dict[Uuid, tuple[str, dict[int, None]]] = {}
        self._ids: dict[str, Uuid] = {}
        self._asked: dict[DuePartition, None] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[DuePartition]:
        return (DuePartition(topic_id, number) for topic_id, (_, numbers) in self._topics.items() for number in numbers)

    def add(self, topic: str, topic_id: Uuid, number: int) -> None:
        """Open it when its turn comes. A former topic of this name waits no longer."""
        if self._ids.setdefault(topic, topic_id) != topic_id:
            self.forget(topic, self._ids[topic])
            self._ids[topic] = topic_id
        numbers = self._topics.setdefault(topic_id, (topic, {}))[1]
        self._count += number not in numbers
        numbers[number] = None
        if is_internal(topic):
            self._asked[DuePartition(topic_id, number)] = None

    def discard(self, topic: str, number: int) -> None:
        """It is open, or led elsewhere; nothing happens to one that does not wait."""
        topic_id = self._ids.get(topic)
        if topic_id is None:
            return
        numbers = self._topics[topic_id][1]
        if number in numbers:
            del numbers[number]
            self._count -= 1
            self._asked.pop(DuePartition(topic_id, number), None)
            if not numbers:
                del self._topics[topic_id], self._ids[topic]

    def forget(self, topic: str, topic_id: Uuid) -> None:
        """The topic was deleted; another one of its name waits on."""
        if self._ids.get(topic) != topic_id:
            return
        del self._ids[topic]
        numbers = self._topics.pop(topic_id)[1]
        self._count -= len(numbers)
        for number in numbers:
            self._asked.pop(DuePartition(topic_id, number), None)

    def clear(self) -> None:
        """None of them is led here."""
        self._topics.clear()
        self._ids.clear()
        self._asked.clear()
        self._count = 0

    def holds(self, topic: str, number: int) -> bool:
        """Whether a partition waits."""
        topic_id = self._ids.get(topic)
        return topic_id is not None and number in self._topics[topic_id][1]

    def ask(self, topic: str, number: int) -> bool:
        """Whether a partition waits. If it does, it is opened before those that no client has asked for."""
        topic_id = self._ids.get(topic)
        return topic_id is not None and self.ask_by_id(topic_id, number)

    def ask_by_id(self, topic_id: Uuid, number: int) -> bool:
        """The same by the topic's id."""
        found = self._topics.get(topic_id)
        if found is None or number not in found[1]:
            return False
        self._asked[DuePartition(topic_id, number)] = None
        return True

    def take(self) -> DuePartition | None:
        """The next one, which waits no longer; None if none waits."""
        if self._asked:
            one = next(iter(self._asked))
        elif self._topics:
            topic_id = next(iter(self._topics))
            one = DuePartition(topic_id, next(iter(self._topics[topic_id][1])))
        else:
            return None
        self.discard(self._topics[one.topic_id][0], one.number)
        return one
