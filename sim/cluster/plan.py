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
