"""The meaning of a seed: which faults a cluster has, how often, and for how long."""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Drawn once at the beginning of a run. Times are virtual seconds, chances in [0, 1]."""

    controllers: int = 3
    brokers: int = 5
    faults: tuple[str, ...] = ()
    """The kinds that happen."""
    fault_every: float = 3.0
    fault_seconds: float = 20.0
    """How long there are faults; afterwards everything has to work again."""
    pause_every: float = 0.5
    """The longest pause of an administrator between two commands."""
    slow: float = 0.05
    """The longest delay of a piece that is late."""
    small_snapshots: bool = False
    replicated_topics: int = 0
    """Topics with three replicas that clients write to and read."""
    replicated_partitions: int = 1
    min_in_sync: int = 2
    unsynced: bool = False
    """Replicated topics acknowledge what is in the page cache (Kafka's default): never do two machines lose it at once."""
    lag_seconds: float = 30.0
    """After this time a follower that has not caught up leaves the in-sync set."""
    producers: int = 0
    readers: int = 0

    @classmethod
    def draw(cls, dice: random.Random) -> Plan:
        """Draw one."""
        kinds = ("kill", "kill", "power", "freeze", "cut", "isolate", "split", "reset", "stop", "wipe", "slow", "clock")
        return cls(
            faults=tuple(sorted(set(dice.choices(kinds, k=dice.randint(1, 6))))),
            fault_every=dice.choice((1.0, 2.0, 4.0)),
            fault_seconds=dice.choice((10.0, 15.0, 25.0)),
            pause_every=dice.choice((0.1, 0.5, 1.5)),
            slow=dice.choice((0.01, 0.05, 0.5)),
            small_snapshots=dice.random() < 0.4,
        )

    @classmethod
    def draw_replicas(cls, dice: random.Random) -> Plan:
        """Draw one about replicas: fewer nodes, which break oftener."""
        kinds = ("kill", "kill", "power", "power", "freeze", "cut", "isolate", "reset", "stop", "wipe", "slow", "clock")
        return cls(
            controllers=dice.choice((1, 1, 3)),
            brokers=dice.choice((3, 3, 4)),
            faults=tuple(sorted(set(dice.choices(kinds, k=dice.randint(1, 5))))),
            fault_every=dice.choice((0.5, 1.0, 2.0, 4.0)),
            fault_seconds=dice.choice((8.0, 12.0, 20.0)),
            pause_every=dice.choice((1.0, 4.0)),
            slow=dice.choice((0.01, 0.05, 0.5)),
            small_snapshots=dice.random() < 0.4,
            replicated_topics=1,
            replicated_partitions=dice.choice((1, 2, 3)),
            min_in_sync=dice.choice((1, 2, 2, 2)),
            unsynced=dice.random() < 0.25,
            lag_seconds=dice.choice((2.0, 5.0, 30.0)),
            producers=dice.choice((1, 2)),
            readers=1,
        )
