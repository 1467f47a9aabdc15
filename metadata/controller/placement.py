"""Places the replicas of new partitions: striped over racks and brokers from a random start.

As Kafka's ``StripedReplicaPlacer`` does it: each rack hands out its brokers in turn, racks take turns too, so that
leaders and followers spread evenly; fenced brokers come last and never lead. Chance is the caller's:
``next_int(bound)`` gives a number in ``[0, bound)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeVar

from stratalog.metadata.image.brokers_image import BrokerImage, BrokersImage
from stratalog.metadata.image.decision import at_once
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["NextInt", "check_assignment", "place_replicas", "placing_replicas"]

_PARTITIONS_PER_PAUSE: Final = 100

NextInt = Callable[[int], int]

T = TypeVar("T")

_NO_RACK: Final = -1


class _Stripe:
    """The brokers of one rack, handed out each once an epoch, each epoch from one place further."""

    __slots__ = ("_at", "_brokers", "_epoch", "_start")

    def __init__(self, brokers: Sequence[int], next_int: NextInt) -> None:
        self._brokers = sorted(brokers)
        self._start = next_int(len(self._brokers)) if self._brokers else 0
        self._at = 0
        self._epoch = 0

    def shuffle(self, next_int: NextInt) -> None:
        _shuffle(self._brokers, next_int)

    def next(self, epoch: int) -> int | None:
        """The next broker of ``epoch``, or ``None`` when all have been handed out."""
        if not self._brokers:
            return None
        if self._epoch != epoch:
            self._epoch = epoch
            self._at = 0
            self._start = (self._start + 1) % len(self._brokers)
        if self._at >= len(self._brokers):
            return None
        broker = self._brokers[(self._start + self._at) % len(self._brokers)]
        self._at += 1
        return broker


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, brokers: Sequence[BrokerImage], next_int: NextInt) -> None:
        self.fenced = _Stripe([broker.broker_id for broker in brokers if broker.is_fenced], next_int)
        self.unfenced = _Stripe([broker.broker_id for broker in brokers if not broker.is_fenced], next_int)

    def next(self, epoch: int) -> int | None:
        broker = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if broker is None else broker


class _Racks:
    """All racks, and the rack whose turn it is."""

    __slots__ = ("_epoch", "_next_int", "_offset", "_racks", "_since_shuffle", "_unfenced_count")

    def __init__(self, brokers: Sequence[BrokerImage], next_int: NextInt) -> None:
        names = sorted({broker.rack for broker in brokers}, key=lambda rack: (rack is not None, rack or ""))
        self._racks = [_Rack([each for each in brokers if each.rack == name], next_int) for name in names]
        self._unfenced_count = sum(not broker.is_fenced for broker in brokers)
        self._next_int = next_int
        self._offset = next_int(len(names)) if names else 0
        self._epoch = 0
        self._since_shuffle = 0

    def place(self, replica_count: int) -> tuple[int, ...]:
        """The replicas of one more partition, the leader first."""
        if self._since_shuffle == self._unfenced_count and self._unfenced_count > 1:
            # Every broker has led once: change the order, or the same assignments would come again.
            _shuffle(self._racks, self._next_int)
            for rack in self._racks:
                rack.fenced.shuffle(self._next_int)
                rack.unfenced.shuffle(self._next_int)
            self._since_shuffle = 0
        self._offset %= len(self._racks)
        leader_rack, leader = self._leader()
        replicas = [leader]
        at = self._offset
        while len(replicas) < replica_count:
            if at == leader_rack:
                leader_rack = _NO_RACK  # the leader's rack has had its turn, once
            else:
                broker = self._racks[at].next(self._epoch)
                if broker is not None:
                    replicas.append(broker)
            at = (at + 1) % len(self._racks)
        self._epoch += 1
        self._since_shuffle += 1
        self._offset += 1
        return tuple(replicas)

    def _leader(self) -> tuple[int, int]:
        at = self._offset
        while True:
            broker = self._racks[at].unfenced.next(self._epoch)
            if broker is not None:
                return at, broker
            at = (at + 1) % len(self._racks)


def _shuffle(items: list[T], next_int: NextInt) -> None:
    """Fisher and Yates, in place."""
    for last in range(len(items) - 1, 0, -1):
        other = next_int(last + 1)
        items[last], items[other] = items[other], items[last]


def placing_replicas(
    brokers: Sequence[BrokerImage], partition_count: int, replica_count: int, next_int: NextInt
) -> Generator[None, None, list[tuple[int, ...]]]:
    """The replicas of each of ``partition_count`` new partitions; pauses every 100 of them.

    Raises `KafkaError` INVALID_REPLICATION_FACTOR, with Kafka's texts, if there are not enough brokers.
    """
    if replica_count <= 0:
        why = f"Invalid replication factor {replica_count}: the replication factor must be positive."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    if all(broker.is_fenced for broker in brokers):
        why = "All brokers are currently fenced, or have all their log directories cordoned."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    if replica_count > len(brokers):
        why = (
            f"The target replication factor of {replica_count} cannot be reached because only {len(brokers)} broker(s) "
            "are registered or some brokers have all their log directories cordoned."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    racks = _Racks(brokers, next_int)
    placed = []
    for number in range(partition_count):
        if number % _PARTITIONS_PER_PAUSE == 0:
            yield
        placed.append(racks.place(replica_count))
    return placed


place_replicas = at_once(placing_replicas)


def check_assignment(replicas: Sequence[int], factor: int | None, brokers: BrokersImage) -> None:
    """Check the brokers that a caller names for a partition, whose others have ``factor`` of them if that is known.

    Raises `KafkaError` INVALID_REPLICA_ASSIGNMENT with Kafka's texts.
    """
    start = "The manual partition assignment includes"
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{start} an empty replica list.")
    for broker, count in sorted(Counter(replicas).items()):
        if broker not in brokers.brokers:
            why = f"{start} broker {broker}, but no such broker is registered."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        if count > 1:
            why = f"{start} the broker {broker} more than once."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    if factor is not None and len(replicas) != factor:
        why = (
            f"{start} a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {factor} replica(s)."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
