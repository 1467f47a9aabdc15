"""The ``uniform`` assignor for members that subscribe to different topics.

Members keep what they still subscribe to; what is free goes, topic by topic, to the subscriber that has least; then
partitions move from the subscriber of a topic that has most to the one that has least, until the subscribers of each
topic differ by one at most or nothing is left that may move. A chain of topics may stay a little uneven: so in Kafka,
whose ``UniformHeterogeneousAssignmentBuilder`` sets the order and the number of rounds used here.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from stratalog.metadata.groups.assignors.member_spec import MemberSpec, Targets
from stratalog.wire.topic import Uuid

__all__ = ["assign_mixed"]

_ROUNDS_MAX: Final = 16
"""Each round about halves what is uneven between topics; members that overlap in long chains would need many more."""


def assign_mixed(members: Mapping[str, MemberSpec], partition_counts: Mapping[Uuid, int]) -> Targets:
    """The target of each member."""
    if not members:
        return {}
    division = _Division(members, partition_counts)
    topics = sorted(division.subscribers, key=division.order)
    for topic in topics:
        division.hand_out(topic)
    division.balance([topic for topic in topics if len(division.subscribers[topic]) > 1])
    return division.targets()


def _subscribers(members: Mapping[str, MemberSpec]) -> dict[Uuid, list[int]]:
    """The members of each topic, in order. Topics with the same ones share a list: most members subscribe as others do."""
    alike: dict[frozenset[Uuid], list[int]] = {}
    for number, spec in enumerate(members.values()):
        alike.setdefault(spec.topics, []).append(number)
    groups: dict[Uuid, list[int]] = {}
    numbers = list(alike.values())
    for index, topics in enumerate(alike):
        for topic in topics:
            groups.setdefault(topic, []).append(index)
    shared: dict[tuple[int, ...], list[int]] = {}
    found: dict[Uuid, list[int]] = {}
    for topic, indexes in groups.items():
        key = tuple(indexes)
        if key not in shared:
            shared[key] = sorted(number for index in indexes for number in numbers[index])
        found[topic] = shared[key]
    return found


class _Division:
    """The owner of each partition, while owners are being worked out.
    Members are numbers, in the order of ``members``.
    """

    def __init__(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[Uuid, int]) -> None:
        self._members = members
        self._counts = partition_counts
        self._sizes = [0] * len(members)
        self._moves = 0
        self._even: dict[int, int] = {}
        """By the id of a list of subscribers: the moves so far when these differed by one at most."""
        self._poorest: dict[int, list[tuple[int, int]]] = {}
        """By the id of a list of subscribers: a heap of them by their sizes, which may have grown meanwhile."""
        self.subscribers = _subscribers(members)
        self._owners: dict[Uuid, list[int | None]] = {
            topic: [None] * partition_counts[topic] for topic in self.subscribers
        }
        for number, spec in enumerate(members.values()):
            self._keep(number, spec)

    def _keep(self, number: int, spec: MemberSpec) -> None:
        for topic, partitions in spec.target.items():
            if topic not in spec.topics:
                continue
            owners = self._owners[topic]
            for partition in partitions:
                if partition < len(owners):
                    owners[partition] = number
                    self._sizes[number] += 1

    def order(self, topic: Uuid) -> tuple[float, int, Uuid]:
        """Topics that give each subscriber many partitions come first, then those with few subscribers."""
        subscriber_count = len(self.subscribers[topic])
        return -self._counts[topic] / subscriber_count, subscriber_count, topic

    def hand_out(self, topic: Uuid) -> None:
        """Give the free partitions of a topic to those of its subscribers that have least."""
        owners, sizes, subscribers = self._owners[topic], self._sizes, self.subscribers[topic]
        if None not in owners:
            return
        poorest = self._poorest.get(id(subscribers))
        if poorest is None:
            poorest = self._poorest[id(subscribers)] = [(sizes[number], number) for number in subscribers]
            heapify(poorest)
        for partition, owner in enumerate(owners):
            if owner is None:
                size, number = poorest[0]
                while size != sizes[number]:  # other topics gave it more; sizes only grow here
                    heapreplace(poorest, (sizes[number], number))
                    size, number = poorest[0]
                owners[partition] = number
                sizes[number] = size + 1
                heapreplace(poorest, (size + 1, number))

    def balance(self, topics: list[Uuid]) -> None:
        """Move partitions until a whole round over the topics moves none, or there were rounds enough."""
        for _ in range(_ROUNDS_MAX):
            if not sum(self._balance_topic(topic) for topic in topics):
                return

    def _balance_topic(self, topic: Uuid) -> int:
        """Even out the subscribers of one topic by moving its partitions; how many moved."""
        sizes, subscribers = self._sizes, self.subscribers[topic]
        if self._even.get(id(subscribers)) == self._moves:
            return 0
        present = [sizes[number] for number in subscribers]
        if max(present) - min(present) <= 1:
            self._even[id(subscribers)] = self._moves
            return 0
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic]):
            if owner is not None:
                owned.setdefault(owner, []).append(partition)
        richest = [(-sizes[number], -number) for number in owned]
        poorest = [(sizes[number], number) for number in subscribers]
        heapify(richest)
        heapify(poorest)
        moved = 0
        while richest:
            size, giver = (-part for part in heappop(richest))
            poor_size, taker = poorest[0]
            if poor_size != sizes[taker]:
                heapreplace(poorest, (sizes[taker], taker))
                heappush(richest, (-size, -giver))
            elif size != sizes[giver]:
                heappush(richest, (-sizes[giver], -giver))
            elif size - poor_size <= 1:
                break
            elif owned[giver]:
                self._move(topic, owned[giver].pop(), giver, taker)
                heappush(richest, (-sizes[giver], -giver))
                heapreplace(poorest, (sizes[taker], taker))
                moved += 1
        return moved

    def _move(self, topic: Uuid, partition: int, giver: int, taker: int) -> None:
        self._moves += 1
        self._owners[topic][partition] = taker
        self._sizes[giver] -= 1
        self._sizes[taker] += 1

    def targets(self) -> Targets:
        """The partitions that every member has now."""
        found: list[dict[Uuid, list[int]]] = [{} for _ in self._members]
        for topic, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner is not None:
                    found[owner].setdefault(topic, []).append(partition)
        return {
            member_id: {topic: frozenset(partitions) for topic, partitions in found[number].items()}
            for number, member_id in enumerate(self._members)
        }
