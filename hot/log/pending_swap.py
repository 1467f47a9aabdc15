"""The cleaner's swap that is under way in a log: its steps wait for the disk, and the log goes on meanwhile.

Old and new segments have names that a crash sorts out as long as both are as the swap found them. So retention leaves
them alone, and a cut into them, or a log that begins anew, ends the swap first: in one go, on the owner's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stratalog.hot.cleaner.swap import SegmentSwap
from stratalog.hot.segments.segment import Segment

if TYPE_CHECKING:  # the parts have a pending swap themselves
    from stratalog.hot.log.parts import LogParts

__all__ = ["PendingSwap", "end_swap", "finish_swap"]


class PendingSwap:
    """``swap`` is the one under way in a log, None if there is none."""

    __slots__ = ("swap",)

    def __init__(self) -> None:
        self.swap: SegmentSwap | None = None

    def holds(self, segment: Segment) -> bool:
        """Whether the segment takes part in the swap."""
        swap = self.swap
        return swap is not None and (segment is swap.segment or any(segment is one for one in swap.old))


def end_swap(parts: LogParts, offset: int = 0) -> None:
    """End the swap that is under way, if it holds anything from ``offset`` on. Raises `OSError`; then call it again.

    One that readers use already is finished; any other is withdrawn.
    """
    swap = parts.pending.swap
    if swap is None or swap.cleaned.end_offset <= offset:
        return
    for _ in swap.retire() if swap.is_in else swap.withdraw():
        swap.sync()
    if swap.is_in:
        finish_swap(parts, swap)
    parts.pending.swap = None


def finish_swap(parts: LogParts, swap: SegmentSwap) -> None:
    """Give the new files their names, and the old ones up for removal. Raises `OSError`; then call it again.

    Producer snapshots stay where a segment begins.
    """
    swap.settle()
    swap.segment.release()  # the next reader opens it by its name
    for old in swap.old:
        parts.doomed.add(swap.doomed_paths(old))
    parts.cycles.note_names()
    parts.snapshots.remove(old.base_offset for old in swap.old[1:])
    parts.pending.swap = None
