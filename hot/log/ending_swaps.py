"""Ends the cleaner's swap that is under way in a log, on the owner's thread: step by step with the cleaner, or in one go."""

from __future__ import annotations

from stratalog.hot.cleaner.swap import SegmentSwap
from stratalog.hot.log.parts import LogParts

__all__ = ["end_swap", "finish_swap"]


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
