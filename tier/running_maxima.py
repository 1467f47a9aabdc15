"""The first number at or behind a place that is at least so large, among very many: a tree of maxima. Pure.

Timestamps of archived ranges do not grow with their offsets, so bisection does not do. The tree has sixteen children
a node; a look-up touches a few of them on each level, whatever the number of ranges.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

__all__ = ["RunningMaxima"]

_FANOUT: Final = 16


class RunningMaxima:
    """A sequence of numbers that grows at its end and shrinks at its front."""

    def __init__(self, values: Iterable[int] = ()) -> None:
        self._levels: list[array[int]] = [array("q")]
        self._dropped = 0
        self.extend(values)

    def __len__(self) -> int:
        return len(self._levels[0]) - self._dropped

    def extend(self, values: Iterable[int]) -> None:
        """Add numbers at the end."""
        first = len(self._levels[0])
        self._levels[0].extend(values)
        below = self._levels[0]
        level = 1
        while len(below) > _FANOUT:
            if level == len(self._levels):
                self._levels.append(array("q"))
                first = 0
            first //= _FANOUT
            above = self._levels[level]
            del above[first:]
            above.extend(max(below[start : start + _FANOUT]) for start in range(first * _FANOUT, len(below), _FANOUT))
            below = above
            level += 1

    def truncate(self, count: int) -> None:
        """Forget all but the first ``count``."""
        kept = self._levels[0][self._dropped : self._dropped + count]
        self._levels, self._dropped = [array("q")], 0
        self.extend(kept)

    def drop_front(self, count: int) -> None:
        """Forget the first ``count``; what they take is given back when they are more than half of all."""
        self._dropped += count
        if self._dropped * 2 > len(self._levels[0]):
            self.truncate(len(self))

    def largest(self) -> int | None:
        """The largest number; None if there is none."""
        if not len(self):
            return None
        best = self._levels[0][self._dropped]
        at = 0
        while (found := self.find(best + 1, at)) is not None:
            best, at = self._levels[0][found + self._dropped], found
        return best

    def find(self, least: int, start: int = 0) -> int | None:
        """The first index from ``start`` on whose number is at least ``least``."""
        at = max(start, 0) + self._dropped
        level = 0
        while at < len(self._levels[level]):
            if self._levels[level][at] >= least:
                if not level:
                    return at - self._dropped
                level -= 1
                at *= _FANOUT
            elif (at + 1) % _FANOUT == 0 and level + 1 < len(self._levels):
                at = (at + 1) // _FANOUT
                level += 1
            else:
                at += 1
        return None
