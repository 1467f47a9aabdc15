"""Evens out leaders over brokers by the order of replicas alone: nothing is copied.

A leadership may go from A to C over B: A gives one of its partitions to B, and B gives another one to C. While some
broker leads at least two more than one that can be reached so, leaderships go along the shortest such way. In the end no
order of the replicas is more even.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping
from itertools import pairwise

from stratalog.wire.topic import TopicPartition

__all__ = ["even_leaders"]


def even_leaders(
    replicas: Mapping[TopicPartition, tuple[int, ...]],
    brokers: Collection[int],
    within: Collection[TopicPartition] | None = None,
) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of all partitions, each with its preferred leader first; the others keep their order.

    ``brokers`` share the leaderships; one that is not among them keeps those that it has. Only partitions of ``within``
    change, if it is given.
    """
    leaders = _Leaders(replicas, brokers, within)
    while leaders.even_once():
        pass
    return leaders.ordered()


class _Leaders:
    def __init__(
        self,
        replicas: Mapping[TopicPartition, tuple[int, ...]],
        brokers: Collection[int],
        within: Collection[TopicPartition] | None,
    ) -> None:
        self._replicas = replicas
        self._brokers = sorted(brokers)
        self._known = frozenset(brokers)
        self._leader = {one: held[0] for one, held in replicas.items()}
        self._counts = Counter(dict.fromkeys(self._brokers, 0))
        self._given: dict[int, dict[int, dict[TopicPartition, None]]] = {broker: {} for broker in self._brokers}
        """Leader -> another broker -> the partitions of the first that the other one holds, too."""
        for one in sorted(replicas):
            leader = self._leader[one]
            if leader in self._known:
                self._counts[leader] += 1
                if within is None or one in within:
                    self._offer(one)

    def ordered(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {
            one: (self._leader[one], *(broker for broker in held if broker != self._leader[one]))
            for one, held in self._replicas.items()
        }

    def even_once(self) -> bool:
        """Make the leaders more even by one; False if they cannot be."""
        for source in sorted(self._brokers, key=lambda broker: (-self._counts[broker], broker)):
            path = self._path(source)
            if path:
                for giver, taker in pairwise(path):
                    self._give(giver, taker)
                return True
        return False

    def _path(self, source: int) -> list[int]:
        """The shortest way to a broker that leads at least two less than ``source``; empty if there is none."""
        before: dict[int, int] = {source: source}
        queue = deque([source])
        while queue:
            at = queue.popleft()
            if self._counts[at] <= self._counts[source] - 2:
                path = [at]
                while path[-1] != source:
                    path.append(before[path[-1]])
                return path[::-1]
            for broker in sorted(self._given[at]):
                if broker not in before and self._given[at][broker]:
                    before[broker] = at
                    queue.append(broker)
        return []

    def _give(self, giver: int, taker: int) -> None:
        one = next(iter(self._given[giver][taker]))
        for broker in self._replicas[one]:
            if broker != giver and broker in self._known:
                del self._given[giver][broker][one]
        self._leader[one] = taker
        self._counts[giver] -= 1
        self._counts[taker] += 1
        self._offer(one)

    def _offer(self, one: TopicPartition) -> None:
        leader = self._leader[one]
        for broker in self._replicas[one]:
            if broker != leader and broker in self._known:
                self._given[leader].setdefault(broker, {})[one] = None
