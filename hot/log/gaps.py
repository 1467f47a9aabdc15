"""Where a log may lack offsets: a gap anywhere else is damage."""

from __future__ import annotations

__all__ = ["LogGaps"]


class LogGaps:
    """From ``below`` on no offset is missing: the cleaner was never there, and no leader has sent a gap."""

    __slots__ = ("below", "cleaned")

    def __init__(self, below: int) -> None:
        self.below = below
        self.cleaned = False
        """True if the log was cleaned: offsets may be missing, also if the topic is no longer compacted."""

    def cut(self, end_offset: int) -> None:
        """Take ``end_offset`` as the new end of the log."""
        self.below = min(self.below, end_offset)
