"""Draws the character of a run: how many nodes, how bad the network, which faults and how often."""

from __future__ import annotations

import random

from msgspec import Struct

__all__ = ["Plan"]


class Plan(Struct, frozen=True):
    """Times are ms, chances in [0, 1]."""

    voters: int = 3
    observers: int = 1
    kraft_version: int = 1
    loss: float = 0.0
    """The chance of each message."""
    duplication: float = 0.0
    delay_ms: int = 10
    """The longest of most delays; some are a hundred times as long."""
    sync_ms: int = 10
    """The longest of most syncs."""
    fault_every_ms: int = 1500
    propose_every_ms: int = 150
    snapshot_every_ms: int = 4000
    faults_ms: int = 30_000
    """How long there are faults; afterwards everything has to work again."""
    faults: tuple[str, ...] = ("cut", "kill", "power", "pause")
    """The kinds that happen."""
    auto_join: bool = False
    """Controllers that are no voters join by themselves, and the administrator leaves the voters alone."""

    @staticmethod
    def draw(dice: random.Random) -> Plan:
        """A plan of its own for each seed."""
        kraft_version = 0 if dice.random() < 0.2 else 1
        kinds = ["cut", "kill", "power", "isolate", "pause", "jump", "slow"]
        if kraft_version:
            kinds += ["wipe", "reconfigure", "reconfigure", "move"]
        else:
            kinds += ["upgrade", "upgrade", "wipe", "reconfigure", "move"]
        return Plan(
            voters=dice.choice((1, 3, 3, 3, 5)),
            observers=dice.randrange(3),
            kraft_version=kraft_version,
            loss=dice.choice((0.0, 0.02, 0.1, 0.3)),
            duplication=dice.choice((0.0, 0.05, 0.2)),
            delay_ms=dice.choice((2, 10, 50)),
            sync_ms=dice.choice((2, 20, 200)),
            fault_every_ms=dice.choice((400, 1000, 2500)),
            propose_every_ms=dice.choice((100, 300, 1000)),
            snapshot_every_ms=dice.choice((1000, 5000, 1_000_000)),
            faults_ms=dice.choice((10_000, 20_000, 40_000)),
            faults=tuple(sorted(set(dice.choices(kinds, k=dice.randrange(1, 7))))),
            auto_join=dice.random() < 0.3,
        )
