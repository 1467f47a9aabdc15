"""The life of a classic group: five states, and which may follow which."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["NEXT_STATES", "ClassicState"]


class ClassicState(StrEnum):
    """A state, as DescribeGroups and ListGroups name it."""

    EMPTY = "Empty"
    """No members; perhaps committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join the next generation; those that have are kept waiting."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation is fixed; its leader computes the assignments."""
    STABLE = "Stable"
    """Every member has, or can fetch, its assignment."""
    DEAD = "Dead"
    """Deleted."""


NEXT_STATES: Final[dict[ClassicState, frozenset[ClassicState]]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}
    ),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}
"""The transition table."""
