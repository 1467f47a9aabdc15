"""The cleaner's swap that is under way in a log: its steps wait for the disk, and the log goes on meanwhile.

Old and new segments have names that a crash sorts out as long as both are as the swap found them. So retention leaves
them alone, and a cut into them, or a log that begins anew, ends the swap first (`hot.log.ending_swaps`).
"""

from __future__ import annotations

from stratalog.hot.cleaner.swap import SegmentSwap
from stratalog.hot.segments.segment import Segment

__all__ = ["PendingSwap"]


class PendingSwap:
    """``swap`` is the one under way in a log, None if there is none."""

    __slots__ = ("swap",)

    def __init__(self) -> None:
        self.swap: SegmentSwap | None = None

    def holds(self, segment: Segment) -> bool:
        """Whether the segment takes part in the swap."""
        swap = self.swap
        return swap is not None and (segment is swap.segment or any(segment is one for one in swap.old))
