"""Plans moves of replicas: brokers that leave hold none in the end, the others as many as each other, racks are kept apart.

As few bytes as possible are copied: a replica moves only off a broker that leaves, out of a rack that has another one of
its partition, or from a broker that has at least two more than the one it goes to; of those that may go, the smallest goes.
Counts are evened out, not load: a partition counts as one, whatever its traffic.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from stratalog.metadata.balancing.leaders import even_leaders
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

__all__ = ["Placed", "plan_moves"]

_Sized = tuple[int, TopicPartition]


class Placed(NamedTuple):
    """A partition: its replicas, the preferred leader first, and the bytes that a new one copies from a peer."""

    replicas: tuple[int, ...]
    copy_bytes: int = 0


def plan_moves(
    partitions: Mapping[TopicPartition, Placed],
    racks: Mapping[int, str | None],
    *,
    receivers: Collection[int],
    leaving: Collection[int] = (),
    spread: bool = True,
    factors: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, tuple[int, ...]]:
    """The new replicas of each partition that changes, the preferred leader first.

    ``racks`` has all brokers. Only ``receivers`` get replicas; brokers that neither receive nor leave are away, and keep what
    they have, but for replicas of partitions that have too many.
    ``factors`` says how many replicas partitions have in the end; the others have as many as now. Without ``spread`` no other
    moves but what is on brokers that leave. Raises `Invalid` where ``receivers`` are too few.
    """
    placing = _Placing(partitions, racks, receivers, leaving)
    placing.narrow(factors or {})
    placing.empty()
    placing.widen(factors or {})
    placing.keep_racks(factors or {})
    if spread:
        placing.part_racks()
        placing.even()
    changed = {one for one, replicas in placing.replicas.items() if replicas != partitions[one].replicas}
    ordered = even_leaders(placing.replicas, receivers, within=None if spread else changed)
    return {one: replicas for one, replicas in ordered.items() if replicas != partitions[one].replicas}


class _Placing:
    """Assignments on their way from the present ones to the planned ones."""

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Placed],
        racks: Mapping[int, str | None],
        receivers: Collection[int],
        leaving: Collection[int],
    ) -> None:
        self._present = partitions
        self._racks = racks
        self._receivers = sorted(set(receivers).difference(leaving))
        self._leaving = frozenset(leaving)
        self.replicas = {one: placed.replicas for one, placed in partitions.items()}
        self._counts = Counter(dict.fromkeys(self._receivers, 0))
        self._held: dict[int, list[_Sized]] = {broker: [] for broker in self._receivers}
        for one, placed in sorted(partitions.items()):
            for broker in placed.replicas:
                if broker in self._held:
                    self._counts[broker] += 1
                    self._held[broker].append((placed.copy_bytes, one))
        for held in self._held.values():
            held.sort()
        self._passed: dict[int, dict[int, _Sized]] = {broker: {} for broker in self._receivers}
        """Source -> target -> those that are held before this one may not go there."""

    def narrow(self, factors: Mapping[TopicPartition, int]) -> None:
        """Take replicas away: from brokers that leave or are away, from racks with several, from brokers with many.

        The preferred leader stays otherwise. A move that takes replicas away ends when all that stay are in sync: with one on a
        broker that is away it would wait for that.
        """
        for one, factor in sorted(factors.items()):
            while len(self.replicas[one]) > max(factor, 1):
                replicas = self.replicas[one]
                taken = Counter(self._racks.get(broker) for broker in replicas)
                gone = max(
                    replicas,
                    key=lambda broker: (
                        broker in self._leaving,
                        broker not in self._held,
                        broker != replicas[0],
                        taken[self._racks.get(broker)],
                        self._counts[broker],
                        broker,
                    ),
                )
                self.replicas[one] = tuple(broker for broker in replicas if broker != gone)
                if gone in self._held:
                    self._release(one, gone)

    def widen(self, factors: Mapping[TopicPartition, int]) -> None:
        """Add replicas, each to the best broker for it."""
        for one, factor in sorted(factors.items()):
            while len(self.replicas[one]) < factor:
                target = self._best(one)
                if target is None:
                    raise Invalid(
                        f"{one} cannot have {factor} replicas: there are {len(self._receivers)} brokers to hold them"
                    )
                self.replicas[one] = (*self.replicas[one], target)
                self._take(one, target)

    def empty(self) -> None:
        """Move all replicas off the brokers that leave."""
        for one in sorted(self.replicas):
            while gone := self._leaving.intersection(self.replicas[one]):
                source = min(gone)
                target = self._best(one)
                if target is None:
                    raise Invalid(
                        f"{one} has {len(self.replicas[one])} replicas, which is more than there are brokers to hold them: "
                        "bring another broker, or lower its replication factor first"
                    )
                self._move(one, source, target)

    def _best(self, one: TopicPartition) -> int | None:
        """The broker for one more replica: in a rack that has none if there is one, and with the fewest."""
        kept = [broker for broker in self.replicas[one] if broker not in self._leaving]
        taken = {self._racks.get(broker) for broker in kept}
        return min(
            (broker for broker in self._receivers if broker not in self.replicas[one]),
            key=lambda broker: (self._racks.get(broker) in taken, self._counts[broker], broker),
            default=None,
        )

    def keep_racks(self, factors: Mapping[TopicPartition, int]) -> None:
        """Where the replica that was taken away was the only one in its rack, move another one into a free rack."""
        for one in sorted(factors):
            racks = {self._racks.get(broker) for broker in self._present[one].replicas}
            self._part(one, len(racks))

    def part_racks(self) -> None:
        """Move replicas that share a rack with another one of their partition into a rack that has none."""
        for one, replicas in sorted(self.replicas.items()):
            self._part(one, len(replicas))

    def _part(self, one: TopicPartition, racks_max: int) -> None:
        """Move replicas that share a rack into free racks until they lie in ``racks_max``; the preferred leader moves last."""
        while True:
            replicas = self.replicas[one]
            taken = Counter(self._racks.get(broker) for broker in replicas)
            free = [broker for broker in self._receivers if self._racks.get(broker) not in taken]
            doubled = [broker for broker in replicas if broker in self._held and taken[self._racks.get(broker)] > 1]
            if not free or not doubled or len(taken) >= racks_max:
                return
            source = max(doubled, key=lambda broker: (broker != replicas[0], self._counts[broker], broker))
            self._move(one, source, min(free, key=lambda broker: (self._counts[broker], broker)))

    def even(self) -> None:
        """Move replicas from brokers with more to brokers with at least two less, while there is one that may go."""
        while self._even_once():
            pass

    def _even_once(self) -> bool:
        order = sorted(self._receivers, key=lambda broker: (self._counts[broker], broker))
        for source in reversed(order):
            for target in order:
                if self._counts[source] - self._counts[target] < 2:
                    break
                one = self._cheapest(source, target)
                if one is not None:
                    self._move(one, source, target)
                    return True
        return False

    def _cheapest(self, source: int, target: int) -> TopicPartition | None:
        """The partition with the fewest bytes that ``source`` may give to ``target``."""
        own, others = self._racks.get(source), self._racks.get(target)
        held, passed = self._held[source], self._passed[source]
        first = bisect_left(held, passed[target]) if target in passed else 0
        for place in range(first, len(held)):
            passed[target] = held[place]
            one = held[place][1]
            replicas = self.replicas[one]
            if target in replicas:
                continue
            if own == others:
                return one
            racks = [self._racks.get(broker) for broker in replicas]
            # The racks stay as many: the one that is left has another replica, or the one that is reached has none yet.
            if racks.count(own) > 1 or others not in racks:
                return one
        return None

    def _move(self, one: TopicPartition, source: int, target: int) -> None:
        self.replicas[one] = tuple(target if broker == source else broker for broker in self.replicas[one])
        if source in self._held:
            self._release(one, source)
        self._take(one, target)

    def _release(self, one: TopicPartition, source: int) -> None:
        self._counts[source] -= 1
        held = self._held[source]
        del held[bisect_left(held, (self._present[one].copy_bytes, one))]

    def _take(self, one: TopicPartition, target: int) -> None:
        sized = (self._present[one].copy_bytes, one)
        self._counts[target] += 1
        insort(self._held[target], sized)
        for broker in self.replicas[one]:  # what it may do now is not known any more
            passed = self._passed.get(broker, {})
            for other, least in passed.items():
                passed[other] = min(least, sized)
