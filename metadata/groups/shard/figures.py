"""Figures about groups, for monitoring."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

__all__ = ["GroupFigures"]


class GroupFigures(Struct, kw_only=True):
    """The present counts, and counts of the events of classic groups."""

    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Groups by type and state."""
    members: int = 0
    """Members of all groups, and member ids that were given out and not used yet."""
    rebalances_completed: int = 0
    sessions_expired: int = 0
    records_skipped: int = 0

    def add(self, other: GroupFigures) -> None:
        """The figures of another shard as well."""
        self.states += other.states
        self.members += other.members
        self.rebalances_completed += other.rebalances_completed
        self.sessions_expired += other.sessions_expired
        self.records_skipped += other.records_skipped
