"""The ordered segments of one log, and where recently used offsets lie in them."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from stratalog.hot.segments.segment import Segment

__all__ = ["SegmentList"]

_HINTS_MAX: Final = 64


class SegmentList(list[Segment]):
    """Segments by base offset; the last one is active. A list, because every read asks for its items and its length.

    It changes by the methods below only.
    """

    __slots__ = ("_bases", "_hints", "active")

    def __init__(self, segments: list[Segment]) -> None:
        super().__init__(segments)
        self._bases = [segment.base_offset for segment in segments]
        self._hints: dict[int, tuple[Segment, int]] = {}
        self.active = segments[-1]
        """The one that is appended to; an attribute, because every append asks for it."""

    def floor(self, offset: int) -> int:
        """The number of the last segment that begins at or below ``offset``; 0 below all."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def append(self, segment: Segment) -> None:
        """Add a segment behind all others."""
        super().append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def remove_first(self, count: int) -> list[Segment]:
        """Take the ``count`` oldest out."""
        removed = self[:count]
        del self[:count]
        del self._bases[:count]
        self._hints.clear()
        return removed

    def remove_from(self, number: int) -> list[Segment]:
        """Take segment ``number`` and all later ones out; of an empty list the caller makes a whole one at once."""
        removed = self[number:]
        del self[number:]
        del self._bases[number:]
        if number:
            self.active = self[-1]
        self._hints.clear()
        return removed

    def replace(self, number: int, count: int, segment: Segment) -> None:
        """Put a frozen segment in the place of ``count`` others from ``number`` on."""
        self[number : number + count] = [segment]
        self._bases[number : number + count] = [segment.base_offset]
        self._hints.clear()

    def insert_behind(self, number: int, segment: Segment) -> None:
        """Put a frozen segment behind segment ``number``, which ends where it begins."""
        self[number + 1 : number + 1] = [segment]
        self._bases[number + 1 : number + 1] = [segment.base_offset]
        self._hints.clear()

    # -- known batch borders ------------------------------------------------------------------------------

    def note_border(self, offset: int, segment: Segment, position: int) -> None:
        """Remember that the batch with base offset ``offset`` begins (or will begin) at ``position``."""
        hints = self._hints
        if len(hints) >= _HINTS_MAX:
            del hints[next(iter(hints))]
        hints[offset] = (segment, position)

    def forget_borders(self) -> None:
        """The active segment gets shorter: what is remembered of it is void."""
        self._hints.clear()

    def border_in(self, segment: Segment, offset: int) -> int | None:
        """The remembered position of ``offset`` in ``segment``."""
        hint = self._hints.get(offset)
        return hint[1] if hint is not None and hint[0] is segment else None
