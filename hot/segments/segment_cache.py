"""Which segments of all logs of a broker hold files and indexes: the bound that they share."""

from __future__ import annotations

from collections import OrderedDict

from stratalog.hot.segments.segment import Segment

__all__ = ["SegmentCache"]


class SegmentCache:
    """Bounds the open files of all segments and the loaded indexes of frozen ones: least recently used leave first."""

    __slots__ = ("_held", "_held_bytes", "index_bytes_max", "latest", "open_max")

    def __init__(self, *, index_bytes_max: int = 64 << 20, open_max: int = 512) -> None:
        self.index_bytes_max = index_bytes_max
        self.open_max = open_max
        self._held: OrderedDict[Segment, int] = OrderedDict()
        self._held_bytes = 0
        self.latest: Segment | None = None
        """The one that was used last; an active segment, which counts no bytes, need not say so again."""

    @property
    def held_count(self) -> int:
        """How many segments hold a file or indexes now."""
        return len(self._held)

    def touch(self, segment: Segment) -> None:
        """``segment`` was just used; others may be released to stay within the bounds."""
        self.latest = segment
        held = self._held
        held_bytes = segment.held_bytes if segment.frozen else 0
        before = held.get(segment)
        if before == held_bytes:
            held.move_to_end(segment)
            return
        held[segment] = held_bytes
        held.move_to_end(segment)
        self._held_bytes += held_bytes - (before or 0)
        while len(held) > 1 and (len(held) > self.open_max or self._held_bytes > self.index_bytes_max):
            oldest, oldest_bytes = held.popitem(last=False)
            self._held_bytes -= oldest_bytes
            oldest.lend()

    def drop(self, segment: Segment) -> None:
        """``segment`` is gone."""
        if self.latest is segment:
            self.latest = None
        held_bytes = self._held.pop(segment, None)
        if held_bytes is not None:
            self._held_bytes -= held_bytes
        segment.release()
