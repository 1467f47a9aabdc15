"""Where a log may lack offsets: a gap anywhere else is damage."""

from __future__ import annotations

__all__ = ["LogGaps"]


class LogGaps:
    """No offset is missing from ``below`` on: the cleaner never was there, and no leader has sent a gap."""

    __slots__ = ("below", "cleaned")

    def __init__(self, below: int) -> None:
        self.below = below
        self.cleaned = False
        """The cleaner has been here: offsets may be missing, whatever the topic's settings say now."""

    def cut(self, end_offset: int) -> None:
        """The log now ends at ``end_offset``."""
        self.below = min(self.below, end_offset)
