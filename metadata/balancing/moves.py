"""The moves of a plan: what they copy, how long that takes at a rate, and which of them may begin now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from stratalog.wire.topic import TopicPartition

__all__ = ["Move", "Traffic", "is_safe", "may_begin", "traffic"]


class Move(NamedTuple):
    """One partition on its way; ``leader`` is -1 while there is none, sizes are those of one new copy."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    leader: int = -1
    copy_bytes: int = 0
    """Copied from the leader."""
    archived_bytes: int = 0
    """In the bucket, where they stay: the new copy reads them there."""

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(broker for broker in self.target if broker not in self.replicas)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers whose copy goes when the others are in sync."""
        return tuple(broker for broker in self.replicas if broker not in self.target)


class Traffic(NamedTuple):
    """The bytes that brokers send and receive by a plan."""

    received: Mapping[int, int]
    sent: Mapping[int, int]

    @property
    def total_bytes(self) -> int:
        """All bytes from peers."""
        return sum(self.received.values())

    @property
    def busiest_bytes(self) -> int:
        """The most that one broker sends or receives."""
        return max([*self.received.values(), *self.sent.values()], default=0)

    def seconds_at(self, bytes_a_second: int) -> float:
        """The least time that the plan takes where each broker sends and receives so much a second."""
        return self.busiest_bytes / bytes_a_second


def traffic(moves: Iterable[Move]) -> Traffic:
    """The bytes of moves by broker; those of a partition without a leader are sent by none."""
    received: Counter[int] = Counter()
    sent: Counter[int] = Counter()
    for move in moves:
        for broker in move.adding:
            received[broker] += move.copy_bytes
            if move.leader >= 0:
                sent[move.leader] += move.copy_bytes
    return Traffic(received, sent)


def is_safe(move: Move, in_sync: Collection[int], min_in_sync: int) -> bool:
    """Whether as many as min.insync.replicas are in sync when the move ends: those that stay, and those that are added.

    A controller ends a move when all that are added are in sync; Apache Kafka's does not look at those that stay.
    """
    after = set(in_sync).intersection(move.target).union(move.adding)
    return len(after) >= min(min_in_sync, len(move.target))


def may_begin(waiting: Iterable[Move], running: Iterable[Move], a_broker_max: int) -> list[Move]:
    """The moves of ``waiting`` to begin now, in their order: no broker receives more than ``a_broker_max`` copies at once.

    A move that only changes the order of replicas copies nothing, and begins at once.
    """
    busy = Counter(broker for move in running for broker in move.adding)
    chosen = []
    for move in waiting:
        if all(busy[broker] < a_broker_max for broker in move.adding):
            chosen.append(move)
            busy.update(move.adding)
    return chosen
