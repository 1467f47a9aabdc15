"""The wires between the nodes: late, lost and doubled messages, and cuts that may let one direction pass."""

from __future__ import annotations

import random
from collections.abc import Callable

from sim.raft.plan import Plan

__all__ = ["Network"]

_VERY_LATE: float = 0.01


class Network:
    """Delivers calls later, or never. Nodes are named by their ids."""

    def __init__(self, plan: Plan, dice: random.Random, schedule: Callable[[int, Callable[[], None]], None]) -> None:
        self.cuts: set[tuple[int, int]] = set()
        """Directions (from, to) in which no message passes."""
        self.calm = False
        """No loss, no doubles, short delays."""
        self._plan = plan
        self._dice = dice
        self._schedule = schedule

    def carry(self, source: int, target: int, deliver: Callable[[], None]) -> None:
        """Carry one message. A cut counts when the message would arrive."""
        plan, dice = self._plan, self._dice
        copies = 1
        if not self.calm:
            copies -= dice.random() < plan.loss
            copies += dice.random() < plan.duplication
        for _ in range(copies):
            delay = 1 + dice.randrange(plan.delay_ms)
            if not self.calm and dice.random() < _VERY_LATE:
                delay *= 100
            self._schedule(delay, lambda: None if (source, target) in self.cuts else deliver())

    def cut(self, source: int, target: int) -> None:
        """Let nothing pass in this direction."""
        self.cuts.add((source, target))

    def isolate(self, node: int, others: list[int]) -> None:
        """Let nothing pass from or to a node."""
        for other in others:
            if other != node:
                self.cuts |= {(node, other), (other, node)}

    def heal(self) -> None:
        """Let everything pass."""
        self.cuts.clear()
